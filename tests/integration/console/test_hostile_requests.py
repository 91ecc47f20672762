"""No address and no form that somebody makes up breaks a page: each is answered, or refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.apps.talking import app
from tests.integration.console.browsing import Site, open_console, readable
from tests.integration.console.test_authorisation import ENTITIES
from tests.world import World

pytestmark = pytest.mark.world(app)

MORE = """
    insert into perdure.ident (lifecycle, id, final) values ('ring', 'over', 'done'), ('ring', 'open', 'done');
    insert into perdure.finished (lifecycle, id, generation, state, input, created_at)
        select lifecycle, id, 0, 'done', '{}', now() from perdure.ident where final = 'done';
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
        values ('left', 'ring', 'open', 0, 'do-ring', 't', 'in_doubt', 'd', now(), now(), now(), 'no answer');
"""
TIMES = ("0001-01-01", "9999-12-31T23:59:59.999999", "9999-12-31T23:59:59-23:59")
NUMBERS = ("9" * 18, "9" * 30, "-1", "nan", "1e400", "\N{ARABIC-INDIC DIGIT THREE}")
TEXTS = ("x" * 3000, "\ud800", "a\r\nb", "\x1f" * 5)
JSON = ("[" * 50_000, '"\\ud800"', '"\\u0000"', "1e400", "NaN", "9" * 5000, "9" * 4000)
PLACES = (
    *TIMES,
    *NUMBERS,
    *TEXTS,
    *(f"{each} a/b" for each in TIMES),
    *(f"1\x1f{each}\x1fa\x1fb\x1fc\x1fd" for each in TIMES),
)
READ: tuple[tuple[str, str, tuple[str, ...], dict[str, str]], ...] = (
    ("/list", "after", PLACES, {"lifecycle": "ring", "state": "starting"}),
    ("/list", "after", PLACES, {"finished": "on"}),
    ("/list", "older_than", ("9" * 400 + "h", "-1d", "36500d"), {}),
    ("/list", "since", TIMES, {"finished": "on"}),
    ("/findings", "after", PLACES, {}),
    ("/inbox/doubts", "after", PLACES, {}),
    ("/inbox/next", "after", PLACES, {}),
    ("/rejected", "after", PLACES, {}),
    ("/rejected/drop", "seq", NUMBERS, {}),
    ("/audit", "before", PLACES, {}),
    ("/audit", "since", TIMES, {}),
    ("/entity/ring", "id", TEXTS, {}),
    ("/search", "q", TEXTS, {}),
    ("/act/resolve", "id", TEXTS, {"lifecycle": "ring"}),
)
ALL = {"lifecycle": "ring", "effect": "do-ring", "ended": "on"}
SENT: tuple[tuple[str, str, tuple[str, ...], dict[str, str]], ...] = (
    ("/act/restart", "input", JSON, {"lifecycle": "ring", "id": "over"}),
    ("/act/resolve", "receipt", JSON, {"lifecycle": "ring", "id": "open"}),
    ("/act/resolve", "receipt", JSON, {**ALL, "same": "on"}),
    ("/act/resolve", "list", (*(f"left {each}" for each in JSON), *JSON, *TEXTS), ALL),
    ("/inbox/doubts/some", "list", (*(f"left {each}" for each in JSON), *JSON, *TEXTS), ALL),
    ("/act/resolve", "as_of", TIMES, ALL),
    ("/act/resolve", "total", NUMBERS, ALL),
    ("/act/resolve", "rate", NUMBERS, ALL),
    ("/act/cancel", "note", TEXTS, {"lifecycle": "ring", "id": "mine"}),
    ("/entity/ring/payloads", "note", TEXTS, {"id": "mine"}),
)


async def test_no_address_breaks_a_page(world: World) -> None:
    await world.db.execute(ENTITIES + MORE)
    async with open_console(world, app=app) as site:
        ann, broken = site.browser("ann", "administer,payloads"), []
        for path, name, values, more in READ:
            for value in values:
                answer = await ann.http.get(path, params={**more, name: encoded(value)})
                if answer.status_code >= 500:
                    broken.append((path, name, value[:30], more, readable(answer.text)))
        assert broken == []


async def test_no_form_breaks_a_page(world: World) -> None:
    await world.db.execute(ENTITIES + MORE)
    async with open_console(world, app=app) as site:
        broken = [each for fields in SENT for each in await _broken(site, *fields)]
        assert broken == []
        failed = [each.problem for each in site.console.jobs._jobs.values() if each.problem]
        assert failed == []


async def _broken(site: Site, path: str, name: str, values: tuple[str, ...], more: Mapping[str, str]) -> list[object]:
    site.console.rates.acts.per_minute = 10**9
    ann = site.browser("ann", "administer,payloads")
    broken: list[object] = []
    await ann.get("/")
    for value in values:
        usual = {"form_token": site.token(ann), "note": "n", "outcome": "done", "as_of": "2100-01-01", "total": "1"}
        answer = await ann.http.post(path, data={**usual, **more, name: encoded(value)})
        await site.console.jobs.close()
        if answer.status_code >= 500:
            broken.append((path, name, value[:30], more, answer.status_code, readable(answer.text)[:200]))
    return broken


def encoded(value: str) -> bytes:
    """As a browser never sends it."""
    return value.encode("utf-8", "surrogatepass")
