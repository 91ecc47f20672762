"""Performs one effect in an ordinary workflow: a loop that executes the decisions of `decide`."""

from __future__ import annotations

import asyncio
import builtins
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from perdure._wire.known import Known
from perdure._wire.orders import AttemptOrder, CallResult, LookupOrder, Report
from perdure._wire.writes import EffectView, Fence, FenceOp, Write
from perdure._workflow.arguments import check_time
from perdure._workflow.calling import BOOKKEEPING, NO_ANSWER, ONCE, SILENCE
from perdure._workflow.decision import Again, Ask, Look, Park, Record, Settled, decide
from perdure._workflow.leaving import to_its_end
from perdure.contracts.dumping import load
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Key, checked_suffix, slot_of
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import AskFirst
from perdure.errors import DeclarationError, InvalidInput
from perdure.temporal.orders import PlainAttempt, PlainLookup

In = TypeVar("In")
Out = TypeVar("Out")

_PERFORMED = "__perdure_performed"
_LOOK_UP_WAITS = timedelta(minutes=5)


class EffectNotPerformed(ApplicationError):
    """The effect ended without being done: it was refused, gave up, or expired.

    Attributes:
        key: the idempotency key of its attempts.
        in_doubt: whether an earlier attempt may have happened.

    Example:
        >>> EffectNotPerformed("charge was refused: no funds", key="k", in_doubt=False).in_doubt
        False
    """

    def __init__(self, why: str, *, key: str, in_doubt: bool) -> None:
        super().__init__(why, key, in_doubt, type=type(self).__name__, non_retryable=True)
        self.key = key
        self.in_doubt = in_doubt


class EffectInDoubt(EffectNotPerformed):
    """The effect may have happened, and its doubt policy needs a person. No attempt is in flight any more.

    Example:
        >>> EffectInDoubt("charge is in doubt: its worker was lost", key="k", in_doubt=True).type
        'EffectInDoubt'
    """


async def perform(
    effect: Effect[In, Out],
    given: In,
    *,
    suffix: str | None = None,
    key: str | None = None,
    expires_at: datetime | None = None,
) -> Out:
    """Perform an effect: make attempts and look-ups until its outcome is known.

    A cancellation waits until the effect is in no doubt. No further attempt begins meanwhile.

    Args:
        effect: an effect that is declared with `@effect`. The worker has `EffectsPlugin(effect)`.
        given: the input.
        suffix: distinguishes several performances of the effect in one execution, also those before and after
            `continue_as_new`. 1 to 500 bytes.
        key: the idempotency key; None = made of the workflow id, the first run of this execution, the effect and the
            suffix. A second execution under the same workflow id then has another key; give one if it must not.
        expires_at: no attempt begins after this time, which has a time zone.

    Returns:
        The receipt.

    Raises:
        EffectInDoubt: the effect may have happened, and nobody can be asked.
        EffectNotPerformed: the effect certainly did not happen, unless `in_doubt` is True.
        DeclarationError: the effect was already performed under this key, or `expires_at` has no time zone.
        InvalidInput: `given` does not fit the contract, `key` is empty, or `suffix` can't be part of a key.
        CancelledError: the workflow was cancelled.

    Example:
        receipt = await perform(charge, order)
    """
    info = workflow.info()
    whose = f"{info.workflow_type}/{info.workflow_id}: {effect.name}"
    check_time(whose, expires_at)
    if key is not None and not str(key).strip():
        raise InvalidInput(
            f"{whose}: the key {key!r} is empty, so two effects could have the same: give an id, or no key"
        )
    slot = slot_of(effect.identity, None if suffix is None else checked_suffix(suffix, whose))
    name = Key(key or f"{info.workflow_type}/{info.workflow_id}~{info.first_execution_run_id}/{slot}")
    performed: set[str] = workflow.instance().__dict__.setdefault(_PERFORMED, set())
    if name in performed:
        raise DeclarationError(
            f"{name} was performed already: keep its receipt, or, if it is to happen a second time, give one of "
            "them another suffix"
        )
    performed.add(name)
    performance = _Performance(effect, given, name, slot, expires_at)
    return await to_its_end(performance.run(), performance.stop)


class _Performance(Generic[In, Out]):
    def __init__(self, effect: Effect[In, Out], given: In, key: Key, slot: str, expires_at: datetime | None) -> None:
        self.stops = False
        self._effect = effect
        self._given = effect.dump_input(given)
        self._key = key
        self._slot = slot
        self._expires_at = expires_at
        self._known = Known(read=True)
        self._seen_at = workflow.now()
        self._doubt_since: datetime | None = None
        self._first_at: datetime | None = None
        self._progress: Any = None

    def stop(self) -> None:
        """Begin no attempt any more, except one that settles a doubt: the workflow was cancelled."""
        self.stops = True

    async def run(self) -> Out:
        while True:
            now = workflow.now()
            known = replace(self._known, age=now - self._seen_at)
            if self.stops and not known.effect.in_doubt and known.effect.status is not EffectStatus.DONE:
                raise asyncio.CancelledError
            luck = workflow.random().uniform(-1, 1) if known.failures else 0.0
            match decide(self._effect, known, now=now, expires_at=self._expires_at, luck=luck):
                case Again(pause, within):
                    if await self._waited(pause):
                        await self._attempt(within)
                case Ask(pause):
                    if await self._waited(pause):
                        await self._look_up()
                case Look(pause):
                    await self._waited(max(pause, timedelta(milliseconds=1)))
                    self._known = replace(self._known, read=True)
                case Record(why):
                    self._see(known.effect.model_copy(update={"status": EffectStatus.NOT_DONE, "why": why}))
                    self._known = self._known.settled()
                    self._doubt_since = None
                case Park(pause):
                    await self._waited(pause)
                    raise self._ended("is in doubt", EffectInDoubt)
                case Settled() as settled:
                    return self._end(settled)

    def _end(self, settled: Settled) -> Out:
        if settled.status is EffectStatus.DONE:
            return load(self._effect.receipt, self._known.effect.receipt)
        refused = settled.refused or settled.status is EffectStatus.REFUSED
        raise self._ended("was refused" if refused else "expired" if settled.expired else "gave up", EffectNotPerformed)

    def _ended(self, how: str, kind: type[EffectNotPerformed]) -> EffectNotPerformed:
        view = self._known.effect
        return kind(f"{self._slot} {how}: {view.why or 'no reason'}", key=self._key, in_doubt=view.in_doubt)

    async def _waited(self, pause: timedelta) -> bool:
        """Pause. Returns False if the effect expired or was cancelled meanwhile, so that `decide` is asked."""
        until = workflow.now() + pause
        if self._expires_at is not None:
            until = min(until, self._expires_at)
        while (left := (until - workflow.now()).total_seconds()) > 0 and not self._leaves():
            try:
                await workflow.wait_condition(self._leaves, timeout=left)
            except builtins.TimeoutError:
                break
        return not self._leaves() and (self._expires_at is None or workflow.now() < self._expires_at)

    def _leaves(self) -> bool:
        return self.stops and not self._known.effect.in_doubt

    async def _attempt(self, within: timedelta | None) -> None:
        now, view = workflow.now(), self._view()
        self._first_at = self._first_at or now
        begin_by = None if within is None or self._doubt_since is None else self._doubt_since + within
        order = AttemptOrder(
            write=self._write(FenceOp.BEGIN),
            input=self._given,
            number=view.attempts + 1,
            timeout=self._effect.timeout.total_seconds(),
            progress=self._progress,
            expires_at=self._expires_at,
        )
        given = PlainAttempt(order=order, view=view.model_copy(update={"first_at": self._first_at}), begin_by=begin_by)
        try:
            report = await self._call(self._effect.name, given, self._effect.timeout, self._effect.inline)
        except NO_ANSWER as failure:
            self._lost(failure, now)
            return
        if report.progress is not None:
            self._progress = report.progress
        if report.begun and report.effect is not None:
            doubtful = report.result is CallResult.IN_DOUBT
            still = view.in_doubt and report.result is not CallResult.DONE and not doubtful
            # A refusal of one attempt does not answer the one before it, unless the other side drops repeats, and that
            # attempt has ended.
            answers_all = within is not None and report.result is CallResult.REFUSED and view.in_flight <= 0
            if doubtful or (still and not answers_all):
                self._doubt(report.why if doubtful else view.why, now, report.effect.attempts)
            else:
                self._doubt_since = None
                self._see(report.effect)
        self._note_end(report)

    def _note_end(self, report: Report) -> None:
        known = replace(self._known.settled(), unmade=not report.made, different=False)
        if report.made:
            definite = report.begun and report.result in (CallResult.NOT_DONE, CallResult.REFUSED)
            failed = report.result is not CallResult.STANDING
            known = replace(
                known,
                failures=known.failures + failed,
                spared=known.spared + (failed and not report.counts),
                last=EffectStatus(report.result.value) if definite else None,
                retry_after=timedelta(seconds=report.retry_after) if report.retry_after else None,
            )
        if not report.begun and report.why:
            known = replace(known, effect=known.effect.model_copy(update={"why": report.why}))
        self._known = known

    def _lost(self, failure: BaseException, ordered_at: datetime) -> None:
        cause = failure.__cause__ if isinstance(failure, ActivityError) else failure
        why = "its worker was lost"
        if isinstance(cause, TimeoutError):
            if cause.type is TimeoutType.SCHEDULE_TO_START:
                self._known = replace(self._known, unmade=True)
                return
            why = f"its worker was lost ({cause.type.name.lower() if cause.type else 'time-out'})"
            if cause.last_heartbeat_details:
                self._progress = cause.last_heartbeat_details[0]
        self._doubt(why, ordered_at, self._known.effect.attempts + 1)
        known = self._known.settled()
        self._known = replace(known, failures=known.failures + 1, unmade=False, last=None, retry_after=None)

    def _doubt(self, why: str | None, ordered_at: datetime, attempts: int) -> None:
        """The outcome of the attempt is unknown. From now on it may run for as long as a call may take."""
        self._doubt_since = self._doubt_since or ordered_at
        self._see(
            EffectView(
                status=EffectStatus.IN_DOUBT,
                token="doubt",
                attempts=attempts,
                first_at=self._first_at,
                in_flight=self._effect.timeout.total_seconds(),
                in_doubt_for=(workflow.now() - self._doubt_since).total_seconds(),
                why=why,
            )
        )

    async def _look_up(self) -> None:
        policy, known = self._effect.doubt, self._known
        assert isinstance(policy, AskFirst)
        order = LookupOrder(
            write=self._write(FenceOp.READ),
            input=self._given,
            visibility_delay=policy.visibility_delay.total_seconds(),
            timeout=policy.lookup.timeout.total_seconds(),
        )
        try:
            given = PlainLookup(order=order, view=self._view())
            report = await self._call(policy.lookup.name, given, policy.lookup.timeout, policy.lookup.inline)
        except NO_ANSWER:
            report = Report(result=CallResult.UNANSWERED, token="", why="its worker was lost")
        if report.result is CallResult.DONE and report.effect is not None:
            self._see(report.effect)
            return
        unanswered = known.unanswered + 1 if report.result is CallResult.UNANSWERED else 0
        misses = known.misses + 1 if report.result is CallResult.MISS and report.believable else known.misses
        self._known = replace(self._known, asked=known.asked + 1, unanswered=unanswered, misses=misses)

    async def _call(self, name: str, given: PlainAttempt | PlainLookup, timeout: timedelta, inline: bool) -> Report:
        """One execution of it.

        Raises:
            ActivityError, ApplicationError, TimeoutError: the activity gave no answer.
        """
        order, whole = given.model_dump(mode="json"), timeout + BOOKKEEPING
        if inline:
            answer: dict[str, Any] = await workflow.execute_local_activity(
                name, order, result_type=dict, start_to_close_timeout=whole, retry_policy=ONCE
            )
            return Report.model_validate(answer)
        looks_up = isinstance(given, PlainLookup)
        waits = _LOOK_UP_WAITS if looks_up else self._effect.schedule_to_start_timeout
        if self._expires_at is not None:
            waits = min(waits, max(self._expires_at - workflow.now(), timedelta(milliseconds=1)))
        answer = await workflow.execute_activity(
            name,
            order,
            result_type=dict,
            schedule_to_start_timeout=waits,
            start_to_close_timeout=whole,
            heartbeat_timeout=SILENCE if looks_up else self._effect.heartbeat_timeout,
            retry_policy=ONCE,
        )
        return Report.model_validate(answer)

    def _view(self) -> EffectView:
        """The present facts."""
        age = (workflow.now() - self._seen_at).total_seconds()
        view = self._known.effect
        return view.model_copy(
            update={"in_flight": view.in_flight - age, "in_doubt_for": view.in_doubt_for + age if view.in_doubt else 0}
        )

    def _see(self, view: EffectView) -> None:
        self._known, self._seen_at = replace(self._known, effect=view), workflow.now()

    def _write(self, op: FenceOp) -> Write:
        info = workflow.info()
        fence = Fence(op=op, key=self._key, effect=self._slot, token="", in_flight=self._effect.timeout.total_seconds())
        return Write(
            lifecycle="workflow",
            id=info.first_execution_run_id,
            generation=0,
            version=0,
            workflow_id=info.workflow_id,
            fence=fence,
        )
