"""Somebody whose roles are limited sees nothing of what is beyond them, on any page or in any file, and acts on nothing
of it by any form: pages that are added later are tried as well."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from perdure.console.page import Page
from tests.apps.talking import app
from tests.integration.console.browsing import Browser, Site, open_console
from tests.integration.operations.acts import untouched
from tests.world import World

pytestmark = pytest.mark.world(app)

HIDDEN = "quagga"
"""In every text of what is beyond the roles; its ids are okapi-N."""
ENTITIES = """
    select perdure.start(l, i, '{"secret": "quagga"}', tenant => t)
    from (values ('ring', 'mine', 'acme'), ('ring', 'okapi-1', 'quagga'), ('rest', 'okapi-2', 'acme'),
        ('quagga', 'okapi-4', 'acme')) x (l, i, t);
    with gone as (delete from perdure.outbox returning *)
        insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
        select 1000 + row_number() over (), lifecycle, id, generation, kind, body, 'quagga' from gone
        where id <> 'mine';
    update perdure.entity set attention = 'quagga', since = '2020-01-01' where id <> 'mine';
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
        select 'k' || id, lifecycle, id, 0, 'do-ring', id, 'in_doubt', 'd', now(), now(), now(),
            case id when 'mine' then 'mine' else 'quagga' end from perdure.entity;
    insert into perdure.finding (kind, lifecycle, id, about, what, advice, run)
        select 'lost', lifecycle, id, 'quagga', 'quagga', 'quagga', 1 from perdure.entity where id <> 'mine';
    select perdure.note(lifecycle, id, 'quagga', 'quagga') from perdure.entity where id <> 'mine';
    insert into perdure.ident (lifecycle, id, final, tenant) values ('ring', 'okapi-3', 'quagga', 'quagga');
    insert into perdure.finished (lifecycle, id, generation, state, why, input, tenant, created_at)
        values ('ring', 'okapi-3', 0, 'quagga', 'quagga', '{}', 'quagga', now());
"""
NAMED = {
    "okapi-1": {"lifecycle": "ring", "id": "okapi-1", "key": "kokapi-1", "seq": "1001"},
    "okapi-2": {"lifecycle": "rest", "id": "okapi-2", "key": "kokapi-2", "seq": "1002"},
    "okapi-3": {"lifecycle": "ring", "id": "okapi-3"},
}
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"lifecycle": "ring"},
    {"lifecycle": "rest"},
    {"lifecycle": "ring", "finished": "on"},
    {"lifecycle": "ring", "effect": "do-ring"},
    {"in_doubt": "on", "format": "json"},
    {"attention": "on"},
    {"lifecycle": "quagg"},
    {"lifecycle": "quagg", "finished": "on"},
    {"q": "o"},
    {"q": "kokapi-1"},
    {"q": "okapi-1"},
)


def paths(page: Page) -> Iterator[str]:
    """Addresses of a page, for whatever stands in its path."""
    for each in ("ring", "rest", "resolve", "retry", "restart", "drop"):
        yield re.sub(r"{\w+}", each, page.path)


async def test_nothing_beyond_somebodys_roles_is_on_a_page_or_in_a_file(world: World) -> None:
    await world.db.execute(ENTITIES)
    async with open_console(world, app=app) as site:
        _without_limits(site)
        ann, all_of_it = site.browser("ann", "bulk:ring@acme,payloads:ring@acme"), site.browser("bob", "administer")
        shown = 0
        for path in sorted({each for page in site.console.pages if _is_read(page) for each in paths(page)}):
            for query in (*FILTERS, *NAMED.values()):
                text = (await ann.http.get(path, params=query)).text
                asked = " ".join(query.values())
                assert HIDDEN not in text, (path, query)
                assert not re.search(r"okapi", text) or "okapi" in asked, (path, query)
            shown += HIDDEN in (await all_of_it.http.get(path, params=FILTERS[0])).text
        assert shown > 5, "the texts are there for others"


async def test_nothing_beyond_somebodys_roles_is_acted_on_by_any_form(world: World) -> None:
    await world.db.execute(ENTITIES)
    before = await _others(world)
    async with open_console(world, app=app) as site:
        _without_limits(site)
        for roles in ("bulk:ring@acme,payloads:ring@acme", "bulk@acme2", "look,administer:ring@acme"):
            ann = site.browser("ann", roles)
            await ann.get("/")
            for page in site.console.pages:
                if page.method == "POST":
                    for path in sorted(set(paths(page))):
                        await _sent(site, ann, path, page)
        await site.console.jobs.close()
        assert await _others(world) == before
        looks = await world.db.fetchval("select count(*) from perdure.transition where why like 'payloads%'")
        assert looks == 0


async def _sent(site: Site, ann: Browser, path: str, page: Page) -> None:
    every = {"note": "n", "outcome": "done", "as_of": "2100-01-01T00:00Z", "total": "1", "rate": "1000"}
    lists = {"lifecycle": "ring", "effect": "do-ring", "list": "kokapi-1\nkokapi-2\nring/okapi-1\nokapi-1"}
    for fields in (*NAMED.values(), *(each for each in FILTERS if "rest" in each.values()), lists):
        data = {"form_token": site.token(ann), **every, **fields}
        answer = await ann.http.post(path, data=data)
        assert HIDDEN not in answer.text, (path, fields)
        assert answer.status_code in (303, 400, 403, 404, 409) or not page.acts, (path, fields, answer.status_code)


async def _others(world: World) -> list[object]:
    """What stands of others."""
    return [each for each in await untouched(world) if "ring,mine" not in str(each) and "/mine" not in str(each)]


def _is_read(page: Page) -> bool:
    return page.method == "GET" and not page.lasts


def _without_limits(site: Site) -> None:
    site.console.rates.requests.per_minute = site.console.rates.acts.per_minute = 10**9
