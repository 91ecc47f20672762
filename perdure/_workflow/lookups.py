"""The look-ups of one performance: orders each look-up, and evaluates its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from temporalio import workflow

from perdure._text.shown import markdown
from perdure._wire.orders import CallResult, LookupOrder, Report
from perdure._wire.writes import FenceOp
from perdure._workflow.attempts import Attempts
from perdure._workflow.calling import NO_ANSWER, Way, call
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.fitting import check_size
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure.contracts.effects import Lookup
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import AskFirst
from perdure.telemetry import metrics, names

In = TypeVar("In")
Out = TypeVar("Out")


class LookUps(Generic[In, Out]):
    """Makes the look-ups of one performance, one after the other.

    Args:
        attempts: records what a look-up has found.
        expires_at: no attempt begins after this time.
    """

    def __init__(
        self,
        run: RunState,
        recorder: Recorder,
        record: EffectRecord[In, Out],
        attempts: Attempts[In, Out],
        *,
        expires_at: datetime | None,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._record = record
        self._attempts = attempts
        self._expires_at = expires_at

    async def make(self) -> None:
        """Make one look-up, and record the effect as done if it was found."""
        record, known = self._record, self._record.known
        policy = (known.terms or record.effect).doubt
        assert isinstance(policy, AskFirst)
        order = LookupOrder(
            write=self._recorder.order(fence=record.fence(FenceOp.READ)),
            input=record.input,
            visibility_delay=policy.visibility_delay.total_seconds(),
            timeout=policy.lookup.timeout.total_seconds(),
        )
        check_size(self._run.entity, f"a look-up of {record.slot}", order)
        record.asked = True
        report = await self._call(order, policy)
        self._run.learn(report.version)
        if report.effect is not None:
            record.see(report.effect, report)
        self._count(report, policy.lookup.name)
        unanswered = known.unanswered + 1 if report.result is CallResult.UNANSWERED else 0
        misses = known.misses + 1 if report.result is CallResult.MISS and report.believable else known.misses
        record.note(asked=known.asked + 1, unanswered=unanswered, misses=misses)
        if report.result is CallResult.DONE and not report.recorded:
            await self._attempts.settle(EffectStatus.DONE, "found by the look-up", receipt=report.receipt, by="look-up")

    async def _call(self, order: LookupOrder, policy: AskFirst[In, Out]) -> Report:
        lookup, number = policy.lookup, self._record.known.asked + 1
        way = Way(lookup.name, lookup.inline, lookup.limit is not None, lookup.timeout, self._expires_at)
        try:
            async with self._recorder.under_way():
                self._recorder.describe()
                summary = markdown(f"{self._record.slot}: look-up {number}")
                return await call(self._todays(lookup), order, way, self._run.events, summary)
        except NO_ANSWER:
            return Report(result=CallResult.UNANSWERED, token="", why="its worker was lost")

    def _todays(self, lookup: Lookup[In, Out]) -> Lookup[In, Out]:
        """The look-up as today's code declares it: workers serve its task queue, and may no longer serve the one in the
        history. If it is not declared any more, every worker serves it that still has its body."""
        today = self._record.effect.lookup
        if today is not None and lookup.name in today.names:
            return today
        return Lookup(lookup.name, timeout=lookup.timeout)

    def _count(self, report: Report, lookup: str) -> None:
        if answer := _answer(report):
            lifecycle = self._run.entity.lifecycle
            metrics.count(workflow.metric_meter(), names.LOOK_UPS, lifecycle=lifecycle, lookup=lookup, answer=answer)


def _answer(report: Report) -> str | None:
    """The answer of a look-up, as a label of the metric; None if no look-up was made."""
    if report.result is CallResult.MISS:
        return "miss" if report.believable else "early"
    return {CallResult.DONE: "hit", CallResult.UNANSWERED: "unanswered"}.get(report.result)
