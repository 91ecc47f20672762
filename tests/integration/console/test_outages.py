"""An act on many goes on after an absence of the database: each is dealt with once, and the counts are the record's."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from temporalio.api.enums.v1 import EventType

from perdure.console import Host, console
from perdure.testing.proxy import proxied
from tests.apps.talking import app
from tests.deadline import until
from tests.integration.console.browsing import Browser, open_console, readable, serving, told
from tests.integration.operations.acts import LOST, parked
from tests.world import World

pytestmark = pytest.mark.world(app)

MANY = 40
FINISHED = f"""
    insert into perdure.ident (lifecycle, id, final) select 'ring', n::text, 'done' from generate_series(1, {MANY}) n;
    insert into perdure.finished (lifecycle, id, generation, state, input, created_at)
        select lifecycle, id, 0, 'done', '{{}}', now() from perdure.ident;
"""
ACCEPTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
BY_ANN = "select id from perdure.transition where made_by = 'ann'"


async def test_an_act_on_many_waits_for_the_database_and_deals_with_each_once(world: World) -> None:
    world.counterparty.replies = [dict(LOST) for _ in range(MANY)]
    await world.db.execute(f"select perdure.start('ring-inline', n::text, '{{}}') from generate_series(1, {MANY}) n")
    await world.spawn("tests.apps.talking:app")
    await parked(world, MANY)
    for number in range(1, MANY + 1):
        await world.parked("ring-inline", number)
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "bulk")
        job = await begun(ann, "/act/resolve?lifecycle=ring-inline&effect=do-ring-inline", "/act/resolve", "20")
        await _done(world, 5)
        await asyncio.to_thread(world.postgres.stop)
        try:
            await shows(ann, job, "The database is away")
        finally:
            await world.servers_are_back()
        assert f"{MANY} settled , 0 refused, of {MANY}" in await shows(ann, job, "Ended")
        assert "The database is away" not in readable(await ann.get(job))
    # Temporal knows it: a workflow task that was lost has put the same act on record as well.
    for number in range(1, MANY + 1):
        history = await world.handle("ring-inline", number).fetch_history()
        assert [each.event_type for each in history.events].count(ACCEPTED) == 1, number


async def test_what_was_accepted_without_an_answer_is_not_done_again(world: World) -> None:
    await world.db.execute(FINISHED)
    async with proxied(world.postgres.port) as proxy:
        url = world.dsn.replace(f":{world.postgres.port}/", f":{proxy.port}/")
        config = world.config.model_copy(update={"database_url": url})
        async with serving(console(Host(told), app=app, config=config, folder=world.folder / "console")) as site:
            ann = site.browser("ann", "bulk")
            job = await begun(ann, "/act/restart?lifecycle=ring&state=done", "/act/restart", "50")
            for done in (5, 15, 25):
                await _done(world, done)
                proxy.lose_reply(b"COMMIT")
            assert f"{MANY} restarted , 0 refused, of {MANY}" in await shows(ann, job, "Ended")
            await each_once(world)


async def test_an_act_on_many_reads_a_page_again_whose_connection_was_killed_inside_it(world: World) -> None:
    await world.db.execute(FINISHED)
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "bulk")
        form = await ann.form("/act/restart?lifecycle=ring&state=done", "/act/restart")
        async with world.db.transaction():
            await world.db.execute("lock table perdure.finished")  # so that the reading stands still, and can be met
            sent = await ann.http.post("/act/restart", data={**form, "note": "as agreed"}, follow_redirects=True)
            first = await _killed(world, {0})
            await _killed(world, {0, first})
        assert f"{MANY} restarted , 0 refused, of {MANY}" in await shows(ann, str(sent.url.path), "Ended")
        await each_once(world)


async def _killed(world: World, before: set[int]) -> int:
    """Kill the session that waits for the table of what is finished, once it is none of those `before`; its process."""
    waiting = "select pid from pg_locks where relation = 'perdure.finished'::regclass and not granted"

    async def waits() -> int:
        pid = await world.db.fetchval(waiting)
        return 0 if pid in before else pid or 0

    pid = await until(waits, "the act reads its first page", every=0.01)
    await world.db.execute("select pg_terminate_backend($1)", pid)
    return int(pid)


async def begun(ann: Browser, preview: str, action: str, rate: str) -> str:
    """Begin an act on many; the path of its page."""
    sent = await ann.send(preview, action, outcome="abandoned", note="as agreed", rate=rate)
    return str(sent.url.path)


async def shows(ann: Browser, job: str, words: str) -> str:
    """Wait until the page of the act says so; its text."""

    async def shown() -> str:
        text = readable(await ann.get(job))
        return text if words in text else ""

    return str(await until(shown, words, every=0.1))


async def each_once(world: World) -> None:
    """The record has one act of hers on each."""
    times = Counter(row["id"] for row in await world.db.fetch(BY_ANN))
    assert times == {str(number): 1 for number in range(1, MANY + 1)}


async def _done(world: World, count: int) -> None:
    async def done() -> bool:
        return len(await world.db.fetch(BY_ANN)) >= count

    await until(done, f"{count} are done", every=0.01)
