"""A rehearsal of an entity that waits for other code ends, and has the reason."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from temporalio import workflow

from perdure import Effect, Escalate, Lifecycle, OperatorRequest, state
from perdure.testing import At, ScriptError, WhenBlocked, rehearse


class Way(StrEnum):
    NEW = "new"
    OVER = state("over", final=True)
    CANCELLED = state("cancelled", cancelled=True)


SECONDS = timedelta(seconds=5)
TEXT = Effect[str, str]("text", timeout=SECONDS, doubt=Escalate())
SCAN = Effect[str, bytes]("scan", timeout=SECONDS, doubt=Escalate())
MEASURE = Effect[str, float]("measure", timeout=SECONDS, doubt=Escalate())
EFFECTS: dict[str, Effect[str, Any]] = {each.name: each for each in (TEXT, SCAN, MEASURE)}


@workflow.defn(name="receiving")
class Receiving(Lifecycle[str, Way]):
    """Performs the effect that its input names."""

    effects = (TEXT, SCAN, MEASURE)

    @workflow.run
    async def run(self, given: str) -> None:
        await self.perform(EFFECTS[given], given)
        await self.enter(Way.OVER)


STANDS = pytest.mark.parametrize(
    ("contract", "receipt"),
    [(TEXT, "x" * 2_000_000), (SCAN, b"%PDF\xff"), (MEASURE, float("nan"))],
    ids=["too large", "bytes that are no text", "no number"],
)


@STANDS
@pytest.mark.parametrize("renew", [False, True])
async def test_it_ends_with_the_reason(contract: Any, receipt: Any, renew: bool) -> None:
    seen = await rehearse(Receiving, contract.name, {contract: [receipt]}, renew_at_every_wait=renew)
    assert (seen.end, seen.calls(contract)) == (None, 1)
    assert "receipt" in str(seen.attention)


@STANDS
async def test_a_message_still_reaches_it(contract: Any, receipt: Any) -> None:
    asked = OperatorRequest(by="ann", note="no more")
    for message in (At(timedelta(days=30), "cancel", asked), WhenBlocked("cancel", asked)):
        seen = await rehearse(Receiving, contract.name, {contract: [receipt]}, messages=[message])
        assert seen.end is Way.CANCELLED


async def test_the_error_for_the_rest_of_the_script_has_the_reason() -> None:
    with pytest.raises(ScriptError, match=r"stands in state 'new' \(.*receipt.*\)"):
        await rehearse(Receiving, "measure", {MEASURE: [float("nan"), 1.0]})
