"""A worker that is frozen (SIGSTOP) for longer than every time-out, and goes on: what may still happen, and what not.

While it stands still another worker takes over. What holds then is exactly what `docs/design.md` promises.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.errands import (
    KINDS,
    LOOKUPS,
    all_attempting,
    attempts,
    commit_errands,
    every_record_says_done,
    is_parked,
    key,
    sends,
)
from tests.acceptance.hold import hold
from tests.world import WorkerProcess, World

UNPARKED = [kind for kind in KINDS if not kind.startswith("escalate")]
PARKED = ["escalate", "escalate-inline"]


async def test_frozen_before_the_check_it_makes_no_call_any_more(world: World) -> None:
    """Its attempt is on record; when it wakes, its time is over: what leaves has left by the other worker."""
    frozen = await spawn_busy(world, len(UNPARKED))
    async with hold(world, "insert on perdure.effect") as commit:
        await commit_errands(world, UNPARKED)
        await commit.reached()
        await frozen.freeze()
        await commit.release()
        other = await world.spawn()
        for kind in UNPARKED:
            await world.ended(kind, kind)
    frozen.thaw()
    await still_works(world, frozen, other)

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in [*UNPARKED, "after"]}
