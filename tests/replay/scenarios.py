"""What is recorded: one run of each shape that a history can have. Each scenario names an entity and leads it there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perdure.contracts import EffectStatus
from tests.apps.bookings import Count
from tests.apps.contracts import Booking
from tests.world import World

Play = Callable[[World, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A lifecycle, and what happens to it."""

    name: str
    lifecycle: str
    play: Play


async def straight(world: World, kind: str) -> None:
    """Nothing goes wrong."""
    await world.client.start(kind, "straight", Booking())
    await world.ended(kind, "straight")


async def not_done_first(world: World, kind: str) -> None:
    """The other side asks to be left alone for a moment."""
    world.counterparty.replies = [{"not_done": "busy", "retry_after": 1}]
    await world.client.start(kind, "not-done", Booking())
    await world.ended(kind, "not-done")


async def refused_then_again(world: World, kind: str) -> None:
    """A definitive no, then somebody asks for another try."""
    world.counterparty.replies = [{"refused": "no such street"}]
    await world.client.start(kind, "refused", Booking())
    await world.is_in(kind, "refused", "failed")
    await world.client.retry(kind, "refused", by="ann", note="the street is there now")
    await world.ended(kind, "refused")


async def in_doubt(world: World, kind: str) -> None:
    """Accepted, then the connection breaks; a person settles what nothing else can."""
    world.counterparty.dedupe = True
    world.counterparty.replies = [{"ok": True, "accept": True, "close": True}]
    await world.client.start(kind, "in-doubt", Booking())
    if kind.startswith("escalate"):
        await parked(world, kind, "in-doubt")
        await world.client.resolve(
            kind, "in-doubt", EffectStatus.DONE, by="ann", note="seen in their office", receipt={"number": 1}
        )
    await world.ended(kind, "in-doubt")


async def cancelled(world: World, kind: str) -> None:
    """Ended by a person while it waits for a retry."""
    world.counterparty.replies = [{"refused": "closed for good"}]
    await world.client.start(kind, "cancelled", Booking())
    await world.is_in(kind, "cancelled", "failed")
    await world.client.cancel(kind, "cancelled", by="ann", note="not needed any more")
    await world.ended(kind, "cancelled")


async def renewed(world: World, kind: str) -> None:
    """Counts, goes on in a new run, counts again, closes."""
    await world.client.start(kind, "renewed", Count())
    handle = world.handle(kind, "renewed")
    await world.until(lambda: _counts(world, kind), "the counter runs")
    await handle.execute_update("add", 2)
    await handle.signal("tell", "renew")
    await handle.execute_update("add", 3)
    await handle.signal("tell", "close")
    await world.ended(kind, "renewed")


async def told(world: World, kind: str) -> None:
    """Is told through the outbox to go on in a new run, and there to close."""
    await world.client.start(kind, "told", Count())
    await world.client.signal(kind, "told", "tell", "renew")

    async def renewed_once() -> bool:
        described = await world.handle(kind, "told").describe()
        return described.raw_description.workflow_execution_info.first_run_id != described.run_id

    await world.until(lambda: _delivered(world), "the signal is delivered")
    await world.until(renewed_once, "a new run")
    await world.client.signal(kind, "told", "tell", "close")
    await world.ended(kind, "told")


async def cancelled_before(world: World, kind: str) -> None:
    """Cancelled by the app before its start was delivered."""
    async with world.db.transaction():
        await world.client.start(kind, "cancelled-before", Booking(), connection=world.db)
        await world.client.cancel(kind, "cancelled-before", by="ann", note="in the same breath", connection=world.db)
    await world.ended(kind, "cancelled-before")


async def parked(world: World, kind: str, entity_id: str) -> None:
    """Wait until a person is wanted."""

    async def wanted() -> bool:
        return (await world.client.status(kind, entity_id)).attention is not None

    await world.until(wanted, f"{kind}/{entity_id} needs a person")


async def _counts(world: World, kind: str) -> bool:
    return not (await world.client.status(kind, "renewed")).waits_for_delivery


async def _delivered(world: World) -> bool:
    return bool(await world.db.fetchval("select count(*) = 0 from perdure.outbox"))


POLICIES = [policy + way for policy in ("lookup", "dedupe", "repeat", "escalate") for way in ("", "-inline")]
SCENARIOS = [
    *(Scenario(f"{kind}-straight", kind, straight) for kind in POLICIES),
    *(Scenario(f"{kind}-in-doubt", kind, in_doubt) for kind in POLICIES),
    *(Scenario(f"{kind}-not-done", kind, not_done_first) for kind in ("lookup", "lookup-inline")),
    *(Scenario(f"{kind}-refused", kind, refused_then_again) for kind in ("lookup", "lookup-inline")),
    Scenario("lookup-cancelled", "lookup", cancelled),
    Scenario("counter-renewed", "counter", renewed),
    Scenario("counter-told", "counter", told),
    Scenario("lookup-cancelled-before", "lookup", cancelled_before),
]
