"""A worker that is frozen (SIGSTOP) for longer than every time-out, and goes on: what may still happen, what not.

While it stands still another worker takes over. What holds then is exactly what `docs/design.md` promises.
All of it waits for the same time-outs, so two cases wait side by side, each in a world of its own.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from perdure.contracts import EffectStatus
from perdure.errors import AlreadyFinished, NotNow, TemporalUnavailable
from tests.acceptance.bookings import (
    LOOKUPS,
    PARKED,
    UNPARKED,
    attempts,
    commit_bookings,
    every_record_says_done,
    key,
    parked,
    sends,
)
from tests.world import WorkerProcess, World


async def test_frozen_before_the_check_it_makes_no_call_any_more(world: World, another_world: World) -> None:
    async with asyncio.TaskGroup() as both:
        for place, kind in zip((world, another_world), LOOKUPS, strict=True):
            both.create_task(makes_no_call(place, kind))


async def makes_no_call(world: World, kind: str) -> None:
    """A booking of this kind: its second attempt calls, the first does not."""
    frozen, pipe = await frozen_at(world, "before the check", kind)
    other = await world.spawn()
    await world.ended(kind, kind)
    go_on(frozen, pipe)
    await world.until(lambda: "time was over before the first byte" in frozen.text(), "word of the frozen attempt")

    await every_record_says_done(world)
    assert (await attempts(world))[kind] >= 2
    assert sends(world.counterparty) == sends(world.counterparty, by=other.pid) == {key(kind): 1}
    await works_alone(world, frozen, other)


async def test_frozen_between_check_and_send_it_sends_late_and_only_the_other_side_can_drop_it(
    world: World, another_world: World
) -> None:
    """No fence stops a process that freezes there for longer than `visibility_delay`: this much is not promised."""
    async with asyncio.TaskGroup() as both:
        both.create_task(sends_late(world, "lookup", accepted=2))
        both.create_task(sends_late(another_world, "dedupe", accepted=1))


async def sends_late(world: World, kind: str, accepted: int) -> None:
    """A booking of this kind is sent twice, and accepted so often."""
    world.counterparty.dedupe = kind == "dedupe"
    frozen, pipe = await frozen_at(world, "after the check", kind)
    await world.spawn()
    await world.ended(kind, kind)
    go_on(frozen, pipe)
    await world.counterparty.saw("do", count=2)

    await every_record_says_done(world)
    assert sends(world.counterparty) == {key(kind): 2}
    await world.until(lambda: world.counterparty.accepted == {key(kind): accepted}, f"accepted {accepted} times")


async def test_frozen_after_the_other_side_accepted_it_nothing_is_done_twice_and_the_late_reply_harms_nobody(
    world: World,
) -> None:
    world.counterparty.dedupe = True
    frozen = await frozen_after_acceptance(world, UNPARKED)
    other = await world.spawn()
    for kind in UNPARKED:
        await world.ended(kind, kind)
    frozen.thaw()
    await world.until(lambda: frozen.text().count("attempt ended") >= len(UNPARKED), "all its late outcomes")

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in UNPARKED}
    assert set(sends(world.counterparty, by=other.pid)) == {key(kind) for kind in UNPARKED if kind not in LOOKUPS}
    begun = await attempts(world)
    assert [kind for kind in UNPARKED if (begun[kind] == 1) != (kind in LOOKUPS)] == []
    await works_alone(world, frozen, other)


async def test_its_late_receipt_ends_what_waits_for_a_person_and_is_kept_even_where_one_has_given_up(
    world: World, another_world: World
) -> None:
    async with asyncio.TaskGroup() as both:
        both.create_task(ended_by_the_receipt(world))
        both.create_task(given_up_before_the_receipt(another_world))


async def ended_by_the_receipt(world: World) -> None:
    """They wait for a person; the receipt comes."""
    frozen = await frozen_after_acceptance(world, PARKED)
    await world.spawn()
    for kind in PARKED:
        await parked(world, kind)
    frozen.thaw()
    for kind in PARKED:
        await world.ended(kind, kind)

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in PARKED}
    assert await attempts(world) == dict.fromkeys(PARKED, 1)
    assert await world.db.fetchval("select count(*) from perdure.effect where settled_by is not null") == 0
    assert await world.db.fetchval("select count(*) from perdure.transition where made_by is not null") == 0


async def given_up_before_the_receipt(world: World) -> None:
    """A person has said that it is of no use any more; the receipt comes."""
    frozen = await frozen_after_acceptance(world, PARKED)
    await world.spawn()
    for kind in PARKED:
        await parked(world, kind)
        await world.client.resolve(kind, kind, EffectStatus.ABANDONED, by="ops", note="no use any more")
        await world.is_in(kind, kind, "failed")
    frozen.thaw()

    async def kept() -> bool:
        rows = await world.db.fetch("select status, receipt from perdure.effect")
        return all(row["status"] == "done" and row["receipt"] for row in rows)

    await world.until(kept, "the late receipts on record")
    for kind in PARKED:
        assert await end_of(world, kind) in ("cancelled", "done")
    assert world.counterparty.accepted == {key(kind): 1 for kind in PARKED}
    assert await world.db.fetchval("select count(*) from perdure.entity") == 0


async def end_of(world: World, kind: str) -> str:
    """Cancel it. A workflow task that the thawed worker still holds may be first, and end it by the receipt."""

    async def over() -> bool:
        with suppress(AlreadyFinished, TemporalUnavailable, NotNow):
            await world.client.cancel(kind, kind, by="ops")
        return (await world.client.status(kind, kind)).final

    await world.until(over, f"{kind} at its end")
    return (await world.client.status(kind, kind)).state


async def frozen_at(world: World, place: str, kind: str) -> tuple[WorkerProcess, Path]:
    """A worker that has a booking's attempt on record and is frozen at that place of its body; the pipe it reads."""
    pipe = world.folder / "pipe"
    os.mkfifo(pipe)
    worker = await spawn_busy(world, 1, STAND_STILL=place, STAND_STILL_AT=str(pipe))
    await commit_bookings(world, [kind])
    await world.until(pipe.with_suffix(".reached").exists, f"a body {place}")
    await worker.freeze()
    return worker, pipe


async def frozen_after_acceptance(world: World, kinds: list[str]) -> WorkerProcess:
    """A worker that is frozen while the other side, that has accepted them all, gives its replies."""
    world.counterparty.before_replying.shut()
    worker = await spawn_busy(world, sum(not kind.endswith("-inline") for kind in kinds))
    await commit_bookings(world, kinds)
    await world.counterparty.has_accepted(len(kinds))
    await worker.freeze()
    world.counterparty.before_replying.open()
    return worker


async def spawn_busy(world: World, attempts: int, **environment: str) -> WorkerProcess:
    """A worker with room for just so many attempts, and few polls: what a frozen one swallows through its open polls
    waits for a time-out each."""
    few = {"PERDURE_MAX_CONCURRENT_EFFECTS": str(attempts)}
    return await world.spawn("tests.apps.polling_little:app", **few, **environment)


def go_on(frozen: WorkerProcess, pipe: Path) -> None:
    """Thaw it, and let its body go on."""
    frozen.thaw()
    pipe.write_bytes(b"go")


async def works_alone(world: World, thawed: WorkerProcess, other: WorkerProcess) -> None:
    """The thawed worker took no harm: it runs another booking to its end, and stops in good order."""
    assert await other.stop() == 0
    await commit_bookings(world, ["dedupe"], ["after"])
    await world.ended("dedupe", "after")
    assert sends(world.counterparty, by=thawed.pid)[key("dedupe", "after")] == 1
    assert await thawed.stop() == 0
