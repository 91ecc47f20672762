"""`perdure status` prints the state of the installation, and counts no start of the future as late."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure._operations.overview import read_overview
from perdure._operations.reach import Reach
from perdure._store.sql import shared
from perdure.errors import NotPermitted
from tests.apps.bodies import app
from tests.command import nobody, perdure
from tests.integration.operations.refused_row import refuse_state
from tests.world import World

NOTHING = {"waiting": 0, "lag_seconds": 0, "due_later": 0, "rejected": 0, "rows_behind": 0, "refused_row": None}


async def status(world: World, *arguments: str) -> str:
    end = await perdure(world, "status", *arguments)
    assert end.exit_code == 0, end.output
    return end.stdout


async def outbox(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await status(world, "--json"))["outbox"]
    return found


async def test_open_lifecycles_stand_by_state_with_the_oldest_and_what_wants_a_person(world: World) -> None:
    each = "from unnest(array['a', 'b']) l, generate_series(1, 3) n"
    await world.db.execute(f"select perdure.start(l, n::text, '{{}}') {each}")
    await world.db.execute(
        "update perdure.entity set state = 'stuck', since = since - interval '1 day', attention = 'look at it', "
        "stuck_at = now() where lifecycle = 'b' and id = '2'"
    )
    found = json.loads(await status(world, "--json"))["open"]
    assert [(each["lifecycle"], each["state"], each["open"], each["attention"], each["stuck"]) for each in found] == [
        ("a", "starting", 3, 0, 0),
        ("b", "starting", 2, 0, 0),
        ("b", "stuck", 1, 1, 1),
    ]
    assert [round(each["oldest_seconds"] / 86400) for each in found] == [0, 0, 1]
    shown = await status(world)
    assert "b          stuck     1     1 d     1      1" in shown
    assert "due later" in shown


async def test_a_row_of_the_app_that_refuses_a_state_is_named_with_the_reason(world: World) -> None:
    await refuse_state(world, "no-number")
    found = await outbox(world)
    assert (found["rows_behind"], found["refused_row"]["id"]) == (1, "no-number")
    line = "public.numbered can't show the state of lookup/no-number: InvalidTextRepresentationError (SQLSTATE 22P02)"
    assert line in await status(world)
    seen = [await read_overview(world.db, Reach.of([(each, None)])) for each in ("lookup", "other")]
    assert [each["outbox"]["refused_row"] is not None for each in seen] == [True, False]


async def test_an_undelivered_row_waits_since_its_commit(world: World) -> None:
    assert await outbox(world) == NOTHING
    assert "no open lifecycles" in await status(world)
    await world.db.execute("select perdure.start('a', n::text, '{}') from generate_series(1, 3) n")
    await world.db.execute("update perdure.outbox set created_at = created_at - interval '1 hour' where id = '2'")
    found = await outbox(world)
    assert (found["waiting"], round(found["lag_seconds"] / 3600)) == (3, 1)


async def test_a_start_for_later_does_not_count_as_waiting_before_its_time(world: World) -> None:
    await world.db.execute("select perdure.start('a', 'a', '{}', not_before => now() + interval '1 hour')")
    assert await outbox(world) == NOTHING | {"due_later": 1}
    await world.db.execute(
        "update perdure.outbox set created_at = now() - interval '1 day', due_at = now() - interval '1 hour'"
    )
    found = await outbox(world)
    assert (found["waiting"], found["due_later"], round(found["lag_seconds"] / 3600)) == (1, 0, 1)
    assert await world.db.fetchval(shared("gauges_waiting")) == 1  # the metric, too


async def test_task_queues_show_who_asks_for_work_and_without_temporal_the_rest_is_shown(world: World) -> None:
    async with world.worker(app) as client:

        async def polled() -> bool:
            queues = json.loads(await status(world, "--json", "--app", "tests.apps.bodies:app"))["task_queues"]
            assert {each["task_queue"] for each in queues} == {world.config.queue}
            return [(each["kind"], each["pollers"]) for each in queues] == [
                ("workflow", [client.identity]),
                ("activity", [client.identity]),
            ]

        await world.until(polled, "the worker among the pollers")
    await world.db.execute("select perdure.start('a', 'a', '{}')")
    end = await perdure(world, "status", TEMPORAL_ADDRESS=nobody())
    assert (end.exit_code, end.stderr.count("\n")) == (1, 1)
    assert end.stderr.startswith("perdure: no Temporal server answers at 127.0.0.1:")
    assert "a          starting  1" in end.stdout
    assert end.stdout.count("no answer") == 2
    assert "those of each build must stay" in end.stdout


async def test_the_task_queues_of_another_scope_are_not_shown(world: World) -> None:
    await world.db.execute("select perdure.start('a', 'a', '{}')")
    await world.db.execute("update perdure.database set mark = 'm', scope = 'clinic', namespace = 'default'")
    end = await perdure(world, "status")
    assert (end.exit_code, end.stderr.count("\n")) == (1, 1)
    assert "this database works with PERDURE_SCOPE='clinic', and here is PERDURE_SCOPE=" in end.stderr
    assert "a          starting  1" in end.stdout
    assert end.stdout.count("no answer") == 2


async def test_status_reports_doubts_finished_entities_and_findings(world: World) -> None:
    assert "no reconciliation has run yet" in await status(world)
    await world.db.execute(
        "select perdure.start('a', n::text, '{}') from generate_series(1, 4) n; "
        "update perdure.entity set attention = 'x is in doubt: ?' where id = '1'; "
        "insert into perdure.effect "
        "(key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline) "
        "select n::text, 'a', n::text, 0, 'x/' || n, 't', "
        "case n when 4 then 'done' when 3 then 'attempting' else 'in_doubt' "
        "end, 'd', now(), now(), now() - n * interval '1 h' from generate_series(1, 4) n; "
        "insert into perdure.finished (lifecycle, id, generation, state, created_at) "
        "select 'a', n::text, 0, 'done', now() from generate_series(5, 9) n; "
        "insert into perdure.reconciliation (asked_by, ended_at, seen, mended, reported) "
        "values ('ann', now(), 3, 1, 2); "
        "insert into perdure.finding (kind, lifecycle, id, what, mended, run) "
        "values ('stuck', 'a', '1', 'x', false, 1), ('stuck', 'a', '2', 'x', true, 1)"
    )
    found = json.loads(await status(world, "--json"))
    [doubt] = found["in_doubt"]
    told = (
        doubt["lifecycle"],
        doubt["effect"],
        doubt["in_doubt"],
        doubt["parked"],
        round(doubt["oldest_seconds"] / 3600),
    )
    assert told == ("a", "x", 3, 1, 3)
    assert (found["conditions"]["finished"], found["finished_estimated"]) == (5, False)
    assert [(each["kind"], each["left_over"], each["mended"]) for each in found["findings"]] == [("stuck", 1, 1)]
    assert found["reconciliation"]["asked_by"] == "ann"
    shown = await status(world)
    assert "3 seen, 1 mended, 2 reported, requested by ann" in shown
    assert "stuck  1                  1" in shown


async def test_many_finished_ones_are_estimated_not_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure._operations.overview.COUNTED", 3)
    await world.db.execute(
        "insert into perdure.finished (lifecycle, id, generation, state, created_at) "
        "select 'a', n::text, 0, 'done', now() from generate_series(1, 50) n; analyze perdure.finished"
    )
    found = json.loads(await status(world, "--json"))
    assert (found["conditions"]["finished"], found["finished_estimated"]) == (50, True)
    assert "≈ 50" in await status(world)


async def test_a_role_that_may_not_read_is_told_who_can_let_it(world: World) -> None:
    await world.db.execute("create role blind login; grant usage on schema perdure to blind")
    try:
        await world.db.execute("grant execute on function perdure.schema_version to blind")
        end = await perdure(world, "status", PERDURE_DATABASE_URL=world.dsn.replace("postgres@", "blind@"))
        assert end.exit_code == 1
        assert isinstance(end.exception, NotPermitted)
        assert "perdure grant blind --as reader" in str(end.exception)
    finally:
        await world.db.execute("drop owned by blind; drop role blind")
