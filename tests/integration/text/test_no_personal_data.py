"""No record, log or history quotes an address, number or name from the message of an error."""

from __future__ import annotations

import asyncio
import json

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure import Client
from tests.apps.quoting import ADDRESS, KINDS, PLACES, TABLE, Case, Quoting, Showing
from tests.world import World

MARK = ADDRESS.partition("@")[0] + "@"
"""A part of it is too much."""
_IN_TEMPORAL = ("step", "message")


@pytest.fixture
def cases() -> dict[str, Case]:
    """An entity for each kind of error at each place."""
    places = [place for place in PLACES if place != "receipt"]
    found = {f"{place}-{kind}": Case(place=place, kind=kind) for place in places for kind in KINDS}
    return found | {"receipt": Case(place="receipt", kind="receipt")}


async def test_an_address_that_an_error_quotes_is_nowhere_on_record(world: World, cases: dict[str, Case]) -> None:
    await world.db.execute(TABLE)
    worker = await world.spawn("tests.apps.quoting:app", PERDURE_LOG_LEVEL="debug")
    async with Client.connect(world.config) as client:
        for name, case in cases.items():
            await client.start(Quoting, name, case)
            if case.place == "message":
                await client.signal("quoting", name, "fail", case.kind)
        for name in ("check", "trigger"):
            await client.start(Showing, name, Case(place="", kind=""))
        # By name nothing is checked here, as in SQL; the relay rejects each with a reason.
        await client.start("quoting", "wrong", {"place": [ADDRESS], "kind": {ADDRESS: 1}})
        await client.signal("quoting", "message-key", "read", {"to": ADDRESS})

    await world.until(lambda: _settled(world, cases), f"each entity shows its error, see {worker.log}")
    await asyncio.gather(*(_has_failed(world, name, case.place) for name, case in cases.items()))
    assert await worker.stop() == 0

    assert "ValueError at quoting.py:" in await _why(world, "body-value")
    assert "OSError: Input/output error" in await _why(world, "body-system")
    assert MARK not in worker.text()
    for table in await world.db.fetch(
        "select c.oid::regclass::text as name from pg_class c where relnamespace = 'perdure'::regnamespace "
        "and relkind in ('r', 'p')"
    ):
        for row in await world.db.fetch(f"select to_jsonb(x) - 'input' as row from {table['name']} x"):
            text = json.loads(row["row"])
            if table["name"] == "perdure.message":
                text.pop("payload")  # the app's own, as it gave it
            if (table["name"], text.get("status")) == ("perdure.effect", "done"):
                text.pop("receipt")
            assert MARK not in json.dumps(text), table["name"]
    for name, case in cases.items():
        if case.place == "receipt":
            continue
        async for event in world.handle("quoting", name).fetch_history_events():
            assert MARK.encode() not in event.SerializeToString(), (name, event.event_id)
        described = await world.handle("quoting", name).describe()
        assert MARK.encode() not in described.raw_description.SerializeToString(), name


async def _settled(world: World, cases: dict[str, Case]) -> bool:
    """Whether each has said in the mirror that something is wrong, but where that is said in Temporal alone."""
    rows = await world.db.fetch("select id from perdure.entity where lifecycle = 'quoting' and attention is not null")
    behind = await world.db.fetchval("select count(*) from perdure.behind where error is not null")
    wanted = {name for name, case in cases.items() if case.place not in _IN_TEMPORAL} | {"wrong", "message-key"}
    return wanted <= {row["id"] for row in rows} and int(behind) == 2


async def _has_failed(world: World, name: str, place: str) -> None:
    """Wait until a step, or a handler, has failed at least once."""

    async def failed() -> bool:
        described = await world.handle("quoting", name).describe()
        raw = described.raw_description
        again = raw.pending_workflow_task.attempt > 1 or described.status is WorkflowExecutionStatus.FAILED
        return again or any(each.HasField("last_failure") for each in raw.pending_activities)

    if place in _IN_TEMPORAL:
        await world.until(failed, f"the {place} of {name} has failed", every=0.2)


async def _why(world: World, name: str) -> str:
    return str(await world.db.fetchval("select attention from perdure.entity where id = $1", name))
