"""A master's children are started in pages, counted as they end, and led to the end that its page has declared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg
from aiohttp import web

from activities.web_jobs.contracts import INLINE_UP_TO
from perdure._services.follower import Follower
from perdure._store.connecting import open_pool
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Move, Write
from perdure._worker.columns import declare
from perdure.contracts import EffectStatus
from tests.applications.web_jobs.conftest import Jobs
from tests.deadline import DEADLINE
from tests.pages import Reply, answers, closes, waits_for
from workers.web_jobs.app import app
from workflows.web_jobs.web_job import WebJob

COUNTED = """
    select f.master from web_job.family f left join web_job.job j on j.parent = f.master group by f.master
    having (f.listed - f.refused, f.waiting, f.open, f.done, f.failed, f.cancelled, f.refused) is distinct from (
        count(j),
        count(j) filter (where j.state = 'listed'),
        count(j) filter (where j.state in ('scheduled', 'held', 'processing')),
        count(j) filter (where j.state = 'complete'), count(j) filter (where j.state = 'failed'),
        count(j) filter (where j.state = 'cancelled'),
        (select count(*) from web_job.refused_child r where r.master = f.master))
"""


@asynccontextmanager
async def led(jobs: Jobs, **types: str) -> AsyncIterator[None]:
    """A worker that leads families; in the end their counts are what is counted, and every row shows its state."""
    for name in ("master", "page", *types):
        await jobs.type(name, types.get(name), timeout=INLINE_UP_TO, children=["master", "page", *types])
    async with jobs.world.worker(app):
        yield
        await rests(jobs)
    assert [row["master"] for row in await jobs.db.fetch(COUNTED)] == []


async def rests(jobs: Jobs) -> None:
    """Wait until all rows show how far their lifecycles are."""
    behind = "select not exists (select from perdure.behind)"
    await jobs.world.until(lambda: jobs.db.fetchval(behind), "nothing is behind")


def lists(*ids: str, type: str = "page", next: str | None = None, **more: Any) -> Reply:
    """A page that lists children."""
    body = {"children": [{"id": id, "type": type} for id in ids], **more}
    return answers(body) if next is None else answers(body, Link=f'<{next}>; rel="next"')


async def counts(jobs: Jobs, master: str) -> str:
    """Its family row: waiting, open, done, failed, cancelled and refused."""
    columns = "waiting, open, done, failed, cancelled, refused"
    row = await jobs.db.fetchrow(f"select {columns} from web_job.family where master = $1", master)
    return " ".join(f"{name}={number}" for name, number in dict(row or {}).items() if number)


async def comes_to(jobs: Jobs, master: str, wanted: str) -> None:
    """Wait until its family row says so."""

    async def so() -> bool:
        return await counts(jobs, master) == wanted

    await jobs.world.until(so, f"the family of {master}: {wanted}")


async def restart(jobs: Jobs, id: str) -> None:
    """As `perdure restart` does."""
    await jobs.world.client.restart("web-job", id, by="ann", note="mended")


def asked(jobs: Jobs, path: str) -> list[str]:
    """For which jobs a page was called."""
    return [each.headers["perdure-job"] for each in jobs.pages.asked if each.path == path]


async def test_children_are_started_in_pages_and_no_more_than_the_window_are_ever_open(jobs: Jobs) -> None:
    busy: set[str] = set()
    seen: list[tuple[int, int]] = []

    async def child(request: web.Request) -> web.StreamResponse:
        busy.add(request.headers["perdure-job"])
        seen.append((len(busy), await pool.fetchval("select open from web_job.family")))
        busy.discard(request.headers["perdure-job"])
        return web.json_response({})

    further = f"{jobs.pages.origin}/further"
    jobs.pages.replies["/master"] = [lists("a.b", "ü 1", "100%", "?x=1&y#z", next=further, window=2)]
    jobs.pages.replies["/further"] = [lists("5", "6", "100%", "7", "8")]
    jobs.pages.replies["/page"] = [child]
    async with asyncpg.create_pool(jobs.world.dsn, min_size=1, max_size=4) as pool, led(jobs):
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "complete"
        assert await counts(jobs, "m") == "done=8"
    assert await jobs.why("m") == "children: 8 done, 0 failed, 0 left of 8"
    assert max(open for _, open in seen) == 2
    assert max(together for together, _ in seen) <= 2
    children = {f"m/{id}" for id in ("a.b", "ü 1", "100%", "?x=1&y#z", "5", "6", "7", "8")}
    assert {row["id"] for row in await jobs.db.fetch("select id from web_job.job where parent = 'm'")} == children
    assert len(seen) == 8
    assert len(asked(jobs, "/master")) == 1


async def test_a_family_ends_by_its_rule_and_only_what_failed_is_run_again(jobs: Jobs) -> None:
    four = ("1", "2", "3", "4")
    jobs.pages.replies["/master"] = [lists("good", "bad", "never", type="page", window=1)]
    jobs.pages.replies["/some"] = [lists(*four, type="fails", tolerates=3)]
    jobs.pages.replies["/any"] = [lists(*four, type="fails", tolerates=None)]
    jobs.pages.replies["/none"] = [lists()]
    jobs.pages.replies["/page"] = [answers(), answers({}, 422), answers()]
    jobs.pages.replies["/fails"] = [answers({}, 422)]
    async with led(jobs, some="/some", any="/any", none="/none", fails="/fails"):
        for type in ("master", "some", "any", "none"):
            await jobs.insert(f"m-{type}", type)
        assert [await jobs.ended(f"m-{type}") for type in ("any", "none")] == ["complete", "complete"]
        assert [await jobs.ended(f"m-{type}") for type in ("master", "some")] == ["failed", "failed"]
        assert await jobs.why("m-any") == "children: 0 done, 4 failed, 0 left of 4"
        assert await jobs.why("m-none") == "children: 0 done, 0 failed, 0 left of 0"
        assert await jobs.why("m-some") == "children: 0 done, 4 failed, 0 left of 4"
        assert await jobs.why("m-master") == "children: 1 done, 1 failed, 1 left of 3"
        assert await counts(jobs, "m-master") == "waiting=1 done=1 failed=1"

        jobs.pages.replies["/fails"] = [answers(), answers({}, 422), answers({}, 422), answers({}, 422), answers()]
        for master in ("m-master", "m-some"):
            await restart(jobs, master)
        assert await jobs.ended("m-master") == "complete"
        assert await jobs.ended("m-some") == "complete"
        assert await counts(jobs, "m-master") == "done=3"
        assert await counts(jobs, "m-some") == "done=1 failed=3"
        failed = "select min(id) from web_job.job where parent = 'm-some' and state = 'failed'"
        await restart(jobs, await jobs.db.fetchval(failed))
        await comes_to(jobs, "m-some", "done=2 failed=2")
    assert sorted(asked(jobs, "/page")) == ["m-master/bad", "m-master/bad", "m-master/good", "m-master/never"]
    assert sorted(asked(jobs, "/master") + asked(jobs, "/some")) == ["m-master", "m-some"]


async def test_a_cancel_reaches_children_and_theirs_and_what_waits_is_never_started(jobs: Jobs) -> None:
    jobs.pages.replies["/master"] = [lists("sub", "x", type="sub", window=1)]
    jobs.pages.replies["/sub"] = [lists("held", "waits", type="page", window=1)]
    async with led(jobs, sub="/sub"):
        await jobs.db.execute("update web_job.type set disabled = 'under repair' where name = 'page'")
        await jobs.insert("m", "master")
        await comes_to(jobs, "m/sub", "waiting=1 open=1")
        await jobs.world.is_in("web-job", "m/sub/held", "held")
        assert await counts(jobs, "m") == "waiting=1 open=1"
        how_far = await jobs.world.asked("web-job", "m")
        assert how_far.how_far == "0 done, 0 failed, 2 left of 2"
        await jobs.db.execute("select perdure.cancel('web-job', 'm', 'ann', 'not today')")
        for id in ("m", "m/sub", "m/sub/held"):
            assert await jobs.ended(id) == "cancelled"
            assert await jobs.why(id) == "not today"
        await comes_to(jobs, "m", "cancelled=2")
        await comes_to(jobs, "m/sub", "cancelled=2")
        started = await jobs.db.fetch("select id from perdure.ident where lifecycle = 'web-job' order by id")
        assert [row["id"] for row in started] == ["m", "m/sub", "m/sub/held"]

        await jobs.db.execute("update web_job.type set disabled = null")
        jobs.pages.replies["/sub"] = [lists()]
        await restart(jobs, "m")
        assert await jobs.ended("m") == "complete"
        assert await counts(jobs, "m") == "done=2"
        assert await counts(jobs, "m/sub") == "done=2"
    assert asked(jobs, "/master") == ["m"]
    assert sorted(asked(jobs, "/sub")) == ["m/sub", "m/x"]


async def test_a_child_in_doubt_keeps_its_family_open_until_somebody_says_what_became_of_it(jobs: Jobs) -> None:
    jobs.pages.replies["/master"] = [lists("doubtful", "other", window=1)]
    jobs.pages.replies["/page"] = [closes(), answers()]
    async with led(jobs):
        await jobs.insert("m", "master")
        await comes_to(jobs, "m", "waiting=1 open=1")

        async def parked() -> bool:
            return bool((await jobs.world.client.status("web-job", "m/doubtful")).attention)

        await jobs.world.until(parked, "the child needs a person")
        await jobs.shows("m", "processing")
        assert await counts(jobs, "m") == "waiting=1 open=1"
        resolve = jobs.world.client.resolve
        await resolve("web-job", "m/doubtful", EffectStatus.DONE, by="ann", note="saw it", receipt={"status": 200})
        assert await jobs.ended("m") == "complete"
        assert await counts(jobs, "m") == "done=2"


async def test_a_master_goes_on_from_its_record_and_with_pages_that_could_not_be_had(jobs: Jobs) -> None:
    held = asyncio.Event()
    gone = f"{jobs.pages.origin}/gone"
    jobs.pages.replies["/master"] = [lists("1", "2", "3", next=gone, window=2)]
    jobs.pages.replies["/page"] = [waits_for(held, answers())]
    jobs.pages.replies["/gone"] = [answers({}, 404), lists("4")]
    async with led(jobs):
        await jobs.insert("m", "master")
        await comes_to(jobs, "m", "waiting=1 open=2")
        await jobs.world.handle("web-job", "m").terminate("by mistake")
        again = "select perdure.start_again(lifecycle, id, generation, version, 'ann', 'terminated') from perdure.ident"
        assert await jobs.db.fetchval(f"{again} where id = 'm'")
        held.set()
        assert await jobs.ended("m") == "failed"
        assert (await jobs.why("m") or "").startswith("page 1 of its children: ")
        assert (await jobs.why("m") or "").endswith(
            "children: 3 done, 0 failed, 0 left of 3 and more that are not listed yet"
        )
        await restart(jobs, "m")
        assert await jobs.ended("m") == "complete"
        assert await counts(jobs, "m") == "done=4"
    assert asked(jobs, "/master") == ["m"]
    assert len(asked(jobs, "/page")) == 4


async def family(jobs: Jobs, master: str, ids: list[str], window: int = 1000) -> None:
    """A family whose children are started, made by SQL alone."""
    children = json.dumps([{"id": id, "type": "page"} for id in ids])
    url, own = f"{jobs.pages.origin}/page", ["page"]
    await jobs.db.execute(
        "insert into web_job.type (name, url, children) values ('page', $1, $2) on conflict do nothing", url, own
    )
    await jobs.db.execute(
        "insert into web_job.job (id, type, state) values ($1, 'page', 'held') on conflict do nothing", master
    )
    await jobs.db.fetchval("select web_job.list_children($1, 0, $2, null, $3)", master, children, window)
    await jobs.db.fetchval("select web_job.advance($1)", master)


async def test_whoever_finishes_children_of_one_family_together_loses_no_count_and_waits_for_nobody(
    jobs: Jobs,
) -> None:
    await jobs.db.execute("select perdure.start('web-job', 'm', '{}')")
    await family(jobs, "m", [str(n) for n in range(120)], window=100)
    await jobs.db.execute("update web_job.family set tolerates = null")
    pools = [await open_pool(jobs.world.dsn, 3) for _ in range(3)]
    await declare(jobs.db, {"web-job": WebJob.mirror})
    stores = [PostgresStore(pool) for pool in pools]

    async def finish(number: int) -> None:
        for version, state in ((1, "processing"), (2, "complete" if number % 3 else "failed")):
            move = Move(state=state, final=version == 2)
            write = partial(
                Write, lifecycle="web-job", id=f"m/{number}", generation=0, workflow_id=f"web-job/m/{number}"
            )
            await stores[number % 3].write(write(version=version, move=move), patience=DEADLINE)

    followers = [Follower(pool, every=0.02) for pool in pools]
    for follower in followers:
        await follower.start()
    await asyncio.gather(*(finish(number) for number in range(100)))
    await rests(jobs)
    for follower in followers:
        await follower.stop()
    for pool in pools:
        await pool.close()
    assert await counts(jobs, "m") == "waiting=20 done=66 failed=34"
    assert await jobs.db.fetchval("select count(*) from perdure.message where name = 'children_moved'") == 1
    assert await jobs.db.fetch(COUNTED) == []


async def test_two_families_of_which_one_is_in_the_other_are_counted_in_one_order(jobs: Jobs) -> None:
    """Else two transactions that finish children of both would wait for each other."""
    await family(jobs, "m", ["sub", "w", "y"])
    await family(jobs, "m/sub", ["1", "2"])
    ends = "update web_job.job set state = 'complete' where id = $1"
    other = await asyncpg.connect(jobs.world.dsn)
    one, two = jobs.db.transaction(), other.transaction()
    await one.start()
    await two.start()
    async with asyncio.timeout(DEADLINE):
        await jobs.db.execute(ends, "m/sub/1")
        await other.execute(ends, "m/w")
        await jobs.db.execute(ends, "m/y")
        await other.execute(ends, "m/sub/2")
        await asyncio.gather(one.commit(), two.commit())
    await other.close()
    assert await counts(jobs, "m") == "open=1 done=2"
    assert await counts(jobs, "m/sub") == "done=2"


async def test_deleted_children_are_not_waited_for(jobs: Jobs) -> None:
    await family(jobs, "m", ["1", "2", "3"], window=1)
    await jobs.db.execute("delete from web_job.job where id = 'm/3'")
    assert await counts(jobs, "m") == "waiting=1 open=1"
    assert await jobs.db.fetch(COUNTED) == []
