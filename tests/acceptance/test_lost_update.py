"""An update that Temporal loses while it is carried out leaves no run that waits to be asked again.

A crash of Temporal in the middle of the update's workflow task; whoever asked is gone as well.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.bookings import commit_bookings, sends
from tests.world import World


@pytest.mark.parametrize("kind", ["lookup-inline", "escalate-inline"])
async def test_the_effect_of_a_retry_before_temporal_crashed_is_also_the_end_of_its_run(
    mortal: World, kind: str
) -> None:
    mortal.counterparty.replies = [{"refused": "not today"}]
    await mortal.spawn()
    await commit_bookings(mortal, [kind])
    await mortal.is_in(kind, kind, "failed")

    mortal.counterparty.before_accepting.shut()
    asking = asyncio.create_task(mortal.client.retry(kind, kind, by="ops"))
    await mortal.counterparty.saw("do", count=2)
    await asyncio.to_thread(mortal.temporal.kill)
    asking.cancel()
    await asyncio.wait({asking})
    mortal.counterparty.before_accepting.open()
    await mortal.ended(kind, kind)
    await mortal.servers_are_back()

    await mortal.until(lambda: completed(mortal, kind), "its run completed")
    assert set(sends(mortal.counterparty).values()) == {1}
    assert mortal.counterparty.accepted.total() == 1


async def completed(world: World, kind: str) -> bool:
    """Whether its run has ended well."""
    described = await world.handle(kind, kind).describe()
    return described.status is not None and described.status.name == "COMPLETED"
