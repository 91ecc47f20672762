"""`perdure status` says how everything stands, and what the app wants later is late for nobody."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from typer.testing import CliRunner

from perdure.command import cli
from perdure.queries import query
from tests.world import World

NOTHING = {"waiting": 0, "lag_seconds": 0, "wanted_later": 0, "rejected": 0, "rows_behind": 0}


async def status(world: World, *arguments: str) -> str:
    environment = {"PERDURE_DATABASE_URL": world.dsn, "COLUMNS": "200"}
    end = await asyncio.to_thread(CliRunner().invoke, cli, ["status", *arguments], env=environment)
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
        ("a", "pending", 3, 0, 0),
        ("b", "pending", 2, 0, 0),
        ("b", "stuck", 1, 1, 1),
    ]
    assert [round(each["oldest_seconds"] / 86400) for each in found] == [0, 0, 1]
    shown = await status(world)
    assert "1 day, 0:00:0" in shown
    assert "wanted later" in shown


async def test_what_waits_for_delivery_waits_since_it_was_committed(world: World) -> None:
    assert await outbox(world) == NOTHING
    assert "no open lifecycles" in await status(world)
    await world.db.execute("select perdure.start('a', n::text, '{}') from generate_series(1, 3) n")
    await world.db.execute("update perdure.outbox set created_at = created_at - interval '1 hour' where id = '2'")
    found = await outbox(world)
    assert (found["waiting"], round(found["lag_seconds"] / 3600)) == (3, 1)


async def test_what_the_app_wants_later_does_not_wait_before_its_time(world: World) -> None:
    await world.db.execute("select perdure.start('a', 'a', '{}', not_before => now() + interval '1 hour')")
    assert await outbox(world) == NOTHING | {"wanted_later": 1}
    await world.db.execute(
        "update perdure.outbox set created_at = now() - interval '1 day', wanted_at = now() - interval '1 hour'"
    )
    found = await outbox(world)
    assert (found["waiting"], found["wanted_later"], round(found["lag_seconds"] / 3600)) == (1, 0, 1)
    assert await world.db.fetchval(query("gauges_waiting")) == 1  # the metric, too
