"""A worker that is killed (SIGKILL) at any instant loses nothing and does nothing twice: another one goes on.

Each test kills it at one instant, with bookings of several policies under way, both ways to run an effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest
from temporalio.api.enums.v1 import TimeoutType

from perdure._wire.names import WRITE
from perdure.contracts import EffectStatus
from tests.acceptance.bookings import (
    KINDS,
    LOOKUPS,
    PARKED,
    UNPARKED,
    attempts,
    commit_bookings,
    every_record_says_done,
    key,
    parked,
    sends,
    settle_parked,
)
from tests.acceptance.hold import hold
from tests.counterparty import Counterparty
from tests.world import World

ONCE = [*LOOKUPS, *PARKED]
"""Those that are never sent a second time while the first may have been accepted."""
AT_LEAST_ONCE = [kind for kind in KINDS if kind not in ONCE]


async def test_killed_before_the_call_everything_is_done_once(world: World) -> None:
    world.counterparty.dedupe = True
    async with Counterparty().serving() as unreachable:
        unreachable.before_accepting.shut()
        first = await world.spawn(COUNTERPARTY_PORT=str(unreachable.port))
        await commit_bookings(world, KINDS)
        for kind in KINDS:
            await unreachable.saw("do", key(kind))
        await first.kill()
        lost = sends(unreachable)
        await world.spawn()
        await settle_parked(world, PARKED, EffectStatus.NOT_DONE)
        await all_ended(world, UNPARKED)
        assert not unreachable.accepted

    await every_record_says_done(world)
    sent = sends(world.counterparty)
    assert world.counterparty.accepted == {key(kind): 1 for kind in KINDS}
    assert {kind: sent[key(kind)] for kind in ONCE} == dict.fromkeys(ONCE, 1)
    begun = await attempts(world)
    assert [kind for kind in KINDS if begun[kind] < lost[key(kind)] + sent[key(kind)]] == [], "sent without a record"


async def test_killed_after_the_other_side_accepted_it_nothing_is_done_twice(world: World) -> None:
    """`Repeat` and `Dedupe` send it once more for one lost worker; it is the other side that drops that."""
    world.counterparty.dedupe = True
    world.counterparty.before_replying.shut()
    first = await world.spawn()
    await commit_bookings(world, KINDS)
    await world.counterparty.has_accepted(len(KINDS))
    await first.kill()
    world.counterparty.before_replying.open()
    await world.spawn()
    await settle_parked(world, PARKED, EffectStatus.DONE)
    await all_ended(world, UNPARKED)

    await every_record_says_done(world)
    sent, begun = sends(world.counterparty), await attempts(world)
    assert {kind: (sent[key(kind)], begun[kind]) for kind in ONCE} == dict.fromkeys(ONCE, (1, 1))
    assert [kind for kind in AT_LEAST_ONCE if not 2 <= sent[key(kind)] <= begun[kind]] == []
    assert world.counterparty.accepted == {key(kind): 1 for kind in KINDS}
    assert set(world.counterparty.asked) == {key(kind) for kind in LOOKUPS}


@pytest.mark.parametrize("kind", LOOKUPS)
async def test_killed_after_its_outcome_was_committed_nobody_needs_to_ask(world: World, kind: str) -> None:
    """Frozen first, so that it can't report what PostgreSQL commits meanwhile."""
    first = await world.spawn()
    async with hold(world, "update on perdure.effect", "new.status = 'done'") as commit:
        await commit_bookings(world, [kind])
        await commit.committed_by_the_frozen(first, lambda: is_done(world, kind))
    assert (await world.client.status(kind, kind)).state == "doing"
    await first.kill()
    await world.spawn()
    await all_ended(world, [kind])

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1}
    assert not world.counterparty.asked
    assert await attempts(world) == {kind: 1}


async def test_killed_before_the_mirror_shows_the_end_another_worker_writes_it(world: World) -> None:
    """And attempts nothing: what is done is on record."""
    first = await world.spawn()
    async with hold(world, "insert on perdure.finished") as final_write:
        await commit_bookings(world, KINDS)
        for kind in KINDS:
            await world.until(partial(is_done, world, kind), f"{kind} done")
        await final_write.reached()
        await first.kill()
        await final_write.cut_off()
        assert await world.db.fetchval("select count(*) from perdure.ident where final is not null") == 0
        begun, sent = await attempts(world), sends(world.counterparty)
        await final_write.release()
        await world.spawn()
        await all_ended(world, KINDS)

    await every_record_says_done(world)
    assert (await attempts(world), sends(world.counterparty)) == (begun, sent)
    assert {kind: world.counterparty.accepted[key(kind)] for kind in ONCE} == dict.fromkeys(ONCE, 1)


async def test_killed_while_a_write_waits_for_postgresql_another_worker_makes_it_once_its_heartbeats_end(
    world: World,
) -> None:
    """The write could not be made in the workflow task, and the killed worker held the activity that replaced it."""
    first = await world.spawn()
    async with hold(world, "insert on perdure.finished") as final_write:
        await commit_bookings(world, ["repeat-inline"])
        await final_write.reached()
        await world.until(lambda: writes_by_an_activity(world, "repeat-inline"), "a write by an activity")
        await first.kill()
        await final_write.cut_off()
        await final_write.release()
        await world.spawn()
        await world.ended("repeat-inline", "repeat-inline")

    await every_record_says_done(world)
    assert await what_ended_the_first_write(world, "repeat-inline") == "TIMEOUT_TYPE_HEARTBEAT"


async def test_killed_during_a_look_up_another_worker_looks_again(world: World) -> None:
    world.counterparty.replies = [{"accept": True, "close": True} for _ in LOOKUPS]
    world.counterparty.before_answering.shut()
    first = await world.spawn()
    await commit_bookings(world, LOOKUPS)
    for kind in LOOKUPS:
        await world.counterparty.saw("ask", key(kind))
    await first.kill()
    asked = Counter(world.counterparty.asked)
    world.counterparty.before_answering.open()
    await world.spawn()
    await all_ended(world, LOOKUPS)

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in LOOKUPS}
    assert all(world.counterparty.asked[key(kind)] > asked[key(kind)] for kind in LOOKUPS)
    assert await attempts(world) == dict.fromkeys(LOOKUPS, 1)


async def test_a_relay_killed_in_the_middle_of_delivering_starts_nothing_twice(world: World) -> None:
    """What was delivered and has ended, and what was delivered and is open, are both delivered again."""
    kinds = ["lookup", "escalate-inline"]
    world.counterparty.replies = [{"accept": True, "close": True} for _ in kinds]
    first = await world.spawn()
    async with hold(world, "delete on perdure.outbox") as forgetting:
        await commit_bookings(world, kinds)
        await forgetting.reached()
        await world.ended("lookup", "lookup")
        await parked(world, "escalate-inline")
        runs = [await run_of(world, kind) for kind in kinds]
        await first.kill()
        await forgetting.cut_off()
        assert await world.db.fetchval("select count(*) from perdure.outbox") == len(kinds)
        await forgetting.release()
    await world.spawn()
    await settle_parked(world, ["escalate-inline"], EffectStatus.DONE)

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in kinds}
    assert await attempts(world) == dict.fromkeys(kinds, 1)
    assert runs == [await run_of(world, kind) for kind in kinds]


async def all_ended(world: World, kinds: Iterable[str]) -> None:
    """Wait for their final states."""
    for kind in kinds:
        await world.ended(kind, kind)


async def is_done(world: World, kind: str) -> bool:
    """Whether the fence knows that it is done."""
    return bool(await world.db.fetchval("select status = 'done' from perdure.effect where key = $1", key(kind)))


async def writes_by_an_activity(world: World, kind: str) -> bool:
    """Whether a worker has taken a write that the workflow task could not bring to an end, and sends heartbeats."""
    pending = (await world.handle(kind, kind).describe()).raw_description.pending_activities
    return any(each.activity_type.name == WRITE and each.HasField("last_heartbeat_time") for each in pending)


async def what_ended_the_first_write(world: World, kind: str) -> str:
    """The type of the time-out after which Temporal gave the activity of a write to another worker."""
    history = await world.handle(kind, kind).fetch_history()
    [started] = [
        event.activity_task_started_event_attributes
        for event in history.events
        if event.HasField("activity_task_started_event_attributes")
    ]
    return TimeoutType.Name(started.last_failure.timeout_failure_info.timeout_type)


async def run_of(world: World, kind: str) -> str:
    """The one run of a booking's workflow."""
    return str((await world.handle(kind, kind).describe()).run_id)
