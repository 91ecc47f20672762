"""Starts bookings as an app does, and reads from every record how they ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from perdure.contracts import EffectStatus
from tests.apps.contracts import Booking
from tests.counterparty import Counterparty
from tests.world import World

POLICIES = ("lookup", "dedupe", "repeat", "escalate")
KINDS = [policy + way for policy in POLICIES for way in ("", "-inline")]
LOOKUPS = ["lookup", "lookup-inline"]
"""The same policy run both ways: as an activity, and in the workflow task."""
PARKED = ["escalate", "escalate-inline"]
"""Those that wait for a person when they are in doubt."""
UNPARKED = [kind for kind in KINDS if kind not in PARKED]


def key(kind: str, entity_id: str | None = None) -> str:
    """Key of the booking's effect; an entity is named after its kind where a test has one of each."""
    return f"{kind}/{entity_id or kind}/do-{kind}"


async def commit_bookings(world: World, kinds: Iterable[str], ids: Sequence[str] | None = None) -> None:
    """One booking of each kind, or one per id, committed in the app's own transaction with their rows."""
    async with world.db.transaction():
        for kind in kinds:
            for entity_id in ids or [kind]:
                await world.db.execute("insert into booking (id) values ($1)", entity_id)
                await world.client.start(kind, entity_id, Booking(), connection=world.db)


async def time_enough(world: World, kind: str) -> float:
    """Seconds after which a booking of this kind may expire and has surely been tried: ten times what one takes here
    and now. The counterparty knows of none afterwards."""
    began = asyncio.get_running_loop().time()
    await world.client.start(kind, "measured", Booking())
    assert await world.ended(kind, "measured") == "done"
    world.counterparty.accepted.clear()
    world.counterparty.requests.clear()
    return max(1.0, 10 * (asyncio.get_running_loop().time() - began))


async def is_parked(world: World, kind: str, entity_id: str | None = None) -> bool:
    """Whether it waits for a person, visibly."""
    return (await world.client.status(kind, entity_id or kind)).attention is not None


async def parked(world: World, kind: str) -> None:
    """Wait until it waits for a person."""
    await world.until(lambda: is_parked(world, kind), f"{kind} parked")


async def settle_parked(world: World, kinds: Iterable[str], outcome: EffectStatus) -> None:
    """Say what became of the bookings that wait for a person, once they do: in the run as well, which a worker that was
    killed after its commit has not seen yet."""
    for kind in kinds:
        await parked(world, kind)
        await world.parked(kind, kind)
        receipt = {"number": 1} if outcome is EffectStatus.DONE else None
        said = await world.client.resolve(kind, kind, outcome, by="ops", note="looked it up", receipt=receipt)
        assert said == f"resolved as {outcome.value}"


async def every_record_says_done(world: World) -> None:
    """App, mirror, fence and Temporal agree: all that was started is done, nothing is left over."""
    all_finished = "select bool_and(final is not null) from perdure.ident"
    await world.until(lambda: world.db.fetchval(all_finished), "the end of all that was started")
    assert await world.db.fetch("select lifecycle, id, final from perdure.ident where final <> 'done'") == []
    for leftover in ("entity", "behind", "outbox", "message", "rejected"):
        await _emptied(world, leftover)
    assert await world.db.fetch("select key from perdure.effect where status <> 'done' or receipt is null") == []
    assert await world.db.fetch("select id from booking where state <> 'done'") == []
    entities = [(row["lifecycle"], row["id"]) for row in await world.db.fetch("select * from perdure.ident")]
    finished = await world.db.fetch("select lifecycle, id from perdure.finished")
    assert sorted(map(tuple, finished)) == sorted(entities)
    for lifecycle, entity_id in entities:
        told = [state for state, _ in groupby(await world.states(lifecycle, entity_id))]
        assert told == ["starting", "doing", "done"], (lifecycle, entity_id)
        await world.completed(lifecycle, entity_id)


async def attempts(world: World) -> dict[str, int]:
    """How many attempts were begun, by kind."""
    return {row["lifecycle"]: row["attempts"] for row in await world.db.fetch("select * from perdure.effect")}


def sends(other_side: Counterparty, by: int | None = None) -> Counter[str]:
    """How often the other side was asked to do each, by key; `by` = only by the process of that id."""
    asked = [each for each in other_side.requests if each["op"] == "do" and by in (None, each["pid"])]
    return Counter(each["key"] for each in asked)


async def _emptied(world: World, table: str) -> None:
    async def empty() -> bool:
        return bool(await world.db.fetchval(f"select count(*) from perdure.{table}") == 0)

    await world.until(empty, f"nothing in perdure.{table}")
