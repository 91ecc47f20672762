"""What becomes of each attempt is seen in the answers of a store, also if one of them is lost."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure._store.memory import MemoryStore
from perdure._wire.writes import Fence, FenceOp, Gate, Write
from perdure.contracts import EffectStatus
from perdure.testing.recorded import Recorded

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_write(version: int, op: FenceOp, token: str, status: EffectStatus | None = None) -> Write:
    fence = Fence(op=op, key="k", effect="send", token=token, digest="d", in_flight=9, status=status)
    return Write(lifecycle="letter", id="a", generation=0, version=version, workflow_id="w", fence=fence)


@pytest.mark.parametrize("token", ["attempt", "look-up"])
async def test_an_outcome_whose_first_answer_was_lost_is_seen_in_the_second_one(token: str) -> None:
    store = MemoryStore(lambda: NOON)
    recorded = Recorded(store)
    begun = await recorded.write(a_write(1, FenceOp.BEGIN, "attempt"), patience=1)
    assert (begun.gate, recorded.outcomes) == (Gate.OPEN, {"k": [EffectStatus.IN_DOUBT]})
    done = a_write(2, FenceOp.OUTCOME, token, EffectStatus.DONE)
    await store.write(done, patience=1)
    await recorded.write(done, patience=1)
    assert recorded.outcomes == {"k": [EffectStatus.DONE]}
