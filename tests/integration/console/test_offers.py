"""A page offers the acts that the command would do, and no others: each act is tried in each situation of an entity."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from temporalio.client import Client

from perdure.console import offering, sources
from perdure.console.verbs import VERBS
from tests.apps.contracts import Booking
from tests.apps.talking import Rest, app
from tests.deadline import DEADLINE
from tests.integration.console.browsing import Browser, Site, open_console, readable
from tests.integration.operations.acts import LOST, delivered
from tests.world import World

pytestmark = pytest.mark.world(app)

FIELDS = {"note": "n", "outcome": "abandoned"}
# On a busy machine a call may time out before its reply: the effect is then parked, which is a situation as well.
UNDER_WAY: dict[str, tuple[str, dict[str, Any]]] = {
    "parked": ("ring", LOST),
    "failed": ("ring", {"refused": "no such bell"}),
    "plodding": ("plod", {"refused": "no such bell"}),
    "pausing": ("slow", {"not_done": "busy"}),
    "asking": ("look", LOST),
}
READY = """
    select count(*) = 25 and bool_and(case when e.lifecycle = 'look' then f.status = 'in_doubt'
        else e.attention is not null or f.status = 'not_done' end)
    from perdure.entity e join perdure.effect f on f.lifecycle = e.lifecycle and f.id = e.id
"""
ENDED_IN_DOUBT = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select 'rest/' || id || '/do-ring', 'rest', id, 0, 'do-ring', 't', 'in_doubt', '', now(), now(), now()
    from perdure.ident where id like 'doubtful-%'
"""
ROWS = """
    select perdure.start('ring', s || '-' || a, '{}')
        from unnest('{plain,over,running,attempted,message,again}'::text[]) s, unnest('{retry,drop}'::text[]) a;
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, message_id, reason)
        select seq, lifecycle, id, 0, case when id like 'message-%' then 'message' else 'start' end, '{}',
            case when id like 'message-%' then 'm' end, 'no worker has it' from perdure.outbox;
    delete from perdure.outbox;
    insert into perdure.message (lifecycle, id, generation, message_id, kind, name, ordinal)
        select lifecycle, id, 0, 'm', 'signal', 'hear', 1 from perdure.ident where id like 'message-%';
    update perdure.entity set workflow_id = 'w' where id like 'running-%' or id like 'message-%';
    update perdure.ident set final = 'done' where id like 'over-%';
    update perdure.ident set generation = 1 where id like 'again-%';
    update perdure.entity set generation = 1 where id like 'again-%';
    update perdure.rejected set generation = 1 where id like 'again-%';
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select 'ring/' || id || '/do-ring', 'ring', id, 0, 'do-ring', 't', 'done', '', now(), now(), now()
    from perdure.ident where id like 'attempted-%';
"""
REJECT = """
    with gone as (delete from perdure.outbox where id like 'rejected-%' returning *)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
        select seq, lifecycle, id, generation, kind, body, 'no worker has it' from gone
"""


async def made(world: World) -> dict[str, str]:
    """Lifecycles by situation; one entity of each for each act."""
    for name in VERBS:
        await world.db.execute("select perdure.start('ring', $1, '{}')", f"rejected-{name}")
        await world.db.execute("select perdure.start('ring', $1, '{}')", f"gone-{name}")
    await world.db.execute(REJECT)
    await world.db.execute("delete from perdure.outbox")
    world.counterparty.mute = True
    async with world.worker(app):
        for name in VERBS:
            for situation, (lifecycle, reply) in UNDER_WAY.items():
                world.counterparty.replies_to[f"{situation}-{name}"] = [dict(reply)]
                await world.client.start(lifecycle, f"{situation}-{name}", Booking())
            await world.client.start(Rest, f"over-{name}", Booking())
            await world.client.start(Rest, f"doubtful-{name}", Booking())
            await world.client.start(Rest, f"waiting-{name}", Booking(seconds=3600))
        for name in VERBS:
            await world.ended("rest", f"over-{name}")
            await world.ended("rest", f"doubtful-{name}")
            await world.is_in("rest", f"waiting-{name}", "doing")
        await world.until(lambda: world.db.fetchval(READY), "each in its situation")
        await delivered(world)
    await world.db.execute(ENDED_IN_DOUBT)
    ring = dict.fromkeys(("rejected", "gone"), "ring")
    rest = dict.fromkeys(("over", "doubtful", "waiting"), "rest")
    return ring | rest | {situation: lifecycle for situation, (lifecycle, _) in UNDER_WAY.items()}


async def test_each_act_is_offered_where_it_is_done_and_nowhere_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering, "PATIENCE", DEADLINE)  # Temporal says whether a workflow is open, however busy it is
    monkeypatch.setattr(sources, "ANSWER", timedelta(seconds=DEADLINE))
    situations = await made(world)
    wrong = []
    async with world.worker(app), open_console(world, app=app) as site:
        ann, eve = site.browser("ann", "settle"), site.browser("eve", "look")
        await world.until(lambda: _connected(site), "the console has connected to Temporal")

        async def looked_up() -> str:
            page = readable(await eve.get("/act/resolve", lifecycle="look", id="asking-resolve"))
            return page if re.search(r"Looked up \d+ times? , last at [-0-9: UTC]+ : it gave no answer: ", page) else ""

        item = await world.until(looked_up, "a look-up is shown", every=0.5)
        assert "attempt 1" in item
        assert "look-up 1" in item
        assert "the doubt policy of do-look is at work" in item
        for situation, lifecycle in situations.items():
            for name in VERBS:
                one = {"lifecycle": lifecycle, "id": f"{situation}-{name}"}
                if (situation, name) == ("asking", "retry"):
                    continue  # it is refused in the moments in which it asks
                assert "/act/" not in await eve.get(f"/entity/{lifecycle}", id=one["id"]), "who may only look"
                page = await ann.get(f"/entity/{lifecycle}", id=one["id"])
                offered = f"/act/{name}?" in page
                form = await ann.get(f"/act/{name}", 200, **one)
                if offered != ('method="post" action="/act/' in form):
                    wrong.append(f"{situation}: {name} has {'a' if not offered else 'no'} form")
                answer, why = await sent(site, ann, name, one)
                if offered != (answer == 303):
                    wrong.append(f"{situation}: {name} is{'' if offered else ' not'} offered, {answer}: {why}")
    assert wrong == []
    async with open_console(world, app=app) as site:  # without a worker, it stays where it begins
        ann = site.browser("ann", "settle")
        await ann.get("/")
        _, notice = await sent(site, ann, "restart", {"lifecycle": "rest", "id": "over-cancel"})
        page = readable(await ann.get("/entity/rest", id="over-cancel", undo="cancel", notice=notice))
        assert "Undo: cancel this generation" in page, page


async def _connected(site: Site) -> bool:
    return isinstance(await site.console.sources.temporal(), Client)


async def sent(site: Site, browser: Browser, name: str, one: dict[str, str]) -> tuple[int, str]:
    """The status, and the words of a refusal."""
    fields = {"form_token": site.token(browser), **one, **FIELDS}
    answer = await browser.http.post(f"/act/{name}", data=fields)
    notice = parse_qs(urlsplit(answer.headers.get("location", "")).query).get("notice", [""])[0]
    return answer.status_code, notice or readable(answer.text)[-200:]


async def test_what_was_rejected_is_delivered_or_dropped_where_that_is_offered_and_nowhere_else(
    world: World,
) -> None:
    await world.db.execute(ROWS)
    wrong = []
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "settle")
        for row in await world.db.fetch("select seq, id from perdure.rejected order by seq"):
            name = row["id"].rpartition("-")[2]
            page = await ann.get("/rejected")
            offered = f'/rejected/{name}?seq={row["seq"]}"' in page
            form = await ann.get(f"/rejected/{name}", seq=str(row["seq"]))
            if offered != ('method="post" action="/rejected/' in form):
                wrong.append(f"{row['id']}: {'a' if not offered else 'no'} form")
            fields = {"form_token": site.token(ann), "seq": str(row["seq"]), "note": "n"}
            answer = await ann.http.post(f"/rejected/{name}", data=fields)
            if offered != (answer.status_code == 303):
                wrong.append(f"{row['id']} is{'' if offered else ' not'} offered: {readable(answer.text)[-200:]}")
    assert wrong == []
