"""What one call of `perform` knows of its effect, and how it learns more: from reports, answers and silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, CancelledError, TimeoutError, TimeoutType

from perdure.activity.orders import Report, Said
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Key, slot_of
from perdure.contracts.outcomes import Status
from perdure.contracts.terms import Terms
from perdure.store.writes import Answer, EffectView, Fence, FenceOp, Move, storable
from perdure.telemetry import metrics, names
from perdure.workflow.carried import Unsettled
from perdure.workflow.conduct import Conductor
from perdure.workflow.decision import Known
from perdure.workflow.leaving import Overtaken
from perdure.workflow.memory import microseconds
from perdure.workflow.passing import earliest_call
from perdure.workflow.requests import Resolution
from perdure.workflow.status import EffectStatus

In = TypeVar("In")
Out = TypeVar("Out")


STAYS_BEHIND = "perdure: what an earlier run performed leads no further"


class Learning(Generic[In, Out]):
    """The lower layer of a `Performance`: it learns, and decides nothing."""

    def __init__(
        self,
        conductor: Conductor,
        effect: Effect[In, Out],
        given: Any,
        suffix: str | None,
        own: Terms | None = None,
    ) -> None:
        self.effect = effect
        self._own = own
        """What this performance has in place of the contract's terms."""
        self._suffix = suffix
        self.slot = slot_of(effect.name, suffix)
        # The way that this run calls it: the one that stands in its history, whatever the contract says today.
        begun_with = conductor.terms.get(effect.identity)
        self._name = begun_with.name if begun_with else effect.identity
        self._inline = begun_with.inline if begun_with else effect.inline
        self.parked = False
        self.hurry = False
        self.poked = False
        """A late outcome came in: the fence knows more."""
        self.resolution: Resolution | None = None
        self.resolved: str | None = None
        self.next_at: datetime | None = None
        self._conductor = conductor
        self._input = given
        """As JSON data."""
        again = conductor.again.get(self.slot, 0)
        self.key = Key.of(conductor.entity, effect.identity, suffix, again)
        if self.slot in conductor.refused:
            conductor.refused.discard(self.slot)
            conductor.ended.pop(self.key, None)
            conductor.again[self.slot] = again + 1
            self.key = Key.of(conductor.entity, effect.identity, suffix, again + 1)
        # What the run before knew goes on: its failures count, its doubt needs no second look at the fence.
        left = conductor.unsettled.get(self.key) or Unsettled(known=Known())
        self.known = replace(left.known, read=False, terms=own or left.known.terms or begun_with)
        self._seen_at = left.seen_at or workflow.now()
        self._within: float | None = None
        """How many seconds after the first one in doubt the last attempt had to begin by; None = no limit."""
        self._shown: str | None = None
        """The state that the last attempt was to enter."""
        self._progress = left.progress
        self._goes_on_at = left.next_at
        """When the pause ends that the run before was in."""
        self.attention = left.attention
        """Why a person is wanted, where it is parked, or was in the run before."""
        self._since = left.since or self._ordered_first()
        self.ordered_at: datetime | None = None
        """When its last attempt was ordered as an activity."""
        self._enters: str | None = None
        """The state that is committed with the first attempt's record."""
        self._follows: Move | None = None
        """What is to be committed with the outcome of the attempt that was ordered last, if it is done."""
        self._follows_at = 0
        """Version of that write."""
        self._moved: Move | None = None
        """What was committed with the outcome."""

    def _ordered_first(self) -> int:
        """The earliest time at which it can have been ordered, in microseconds: if its record is lost, the fence takes
        nothing for untouched that was ordered before."""
        conductor, at = self._conductor, earliest_call() if self._inline else workflow.now()
        if conductor.gaps:
            return microseconds(conductor.started_at)
        repeats = self._repeats or conductor.performed_before is None
        return conductor.began if repeats or at is None else microseconds(at)

    @property
    def _is_new(self) -> bool:
        """Whether no earlier run has performed it to its end."""
        earlier = self._conductor.performed_before
        return not self._conductor.catching_up or (earlier is not None and self.slot not in earlier)

    @property
    def _repeats(self) -> bool:
        """Whether an earlier run may have performed it."""
        return self._conductor.catching_up or self.slot in (self._conductor.performed_before or ())

    @property
    def _is_behind(self) -> bool:
        """Whether the run before has done more than this: what an earlier run performed to its end is settled once
        more, since the database has lost the record of it. After a retry it is performed anew."""
        conductor = self._conductor
        repeats = conductor.catching_up and conductor.retry is None
        return repeats and self.slot in (conductor.performed_before or ()) and workflow.patched(STAYS_BEHIND)

    def _acted(self) -> None:
        """The effect has brought the run further than the one before it, unless it only repeats what that has done."""
        if not self._is_behind:
            self._conductor.acted()

    @property
    def timeout(self) -> timedelta:
        """Of its next call: the one that `decide` reckons with, when it judges what still fits into a window."""
        return (self.known.terms or self.effect).timeout

    def status(self) -> EffectStatus:
        """Where it is, as the query `status` shows it."""
        view = self.known.effect
        return EffectStatus(
            effect=self.slot,
            key=self.key,
            status=view.status,
            attempts=view.attempts,
            parked=self.parked,
            why=view.why,
            next_at=self.next_at,
        )

    def unsettled(self) -> Unsettled:
        """What the next run must know of it."""
        return Unsettled(
            known=replace(self.known, terms=None),  # a new run takes today's
            seen_at=self._seen_at,
            progress=self._progress,
            since=self._since,
            attention=self.attention,
            next_at=self.next_at,
            effect=self.effect.identity,
            suffix=self._suffix,
            given=self._input,
            own=self._own,
        )

    async def _learn(self, report: Report, before: str) -> None:
        conductor = self._conductor
        conductor.learn(report.version)
        self._progress = report.progress if report.progress is not None else self._progress
        if report.said is Said.OVER:
            raise Overtaken(report.state)
        standing = self._today(report.state)
        # A record that stands was made together with the state: by another execution of this attempt, by the run
        # that this one is a reset of, or by an earlier `perform`.
        stands = report.effect is not None and self._is_new
        entered = report.begun or stands or standing == conductor.state
        state = conductor.state if entered else self._back(before)
        if not report.recorded:
            # Its own commit failed: the fence must know before anything else is decided.
            answer = await conductor.write(
                conductor.order(
                    fence=self._fence(
                        FenceOp.OUTCOME,
                        token=report.token,
                        within=self._within,
                        status=Status(report.said.value),
                        receipt=report.receipt,
                        why=storable(report.why),
                    )
                )
            )
            if answer.gate.over:
                raise Overtaken(answer.state)
            # A state further on was entered by a workflow task that was lost: this run comes to it in its turn.
            known = self._today(answer.state)
            if known is not None and known in (before, self._shown):
                state = known
            elif answer.effect is not None and answer.effect.attempts:  # its state was entered with its record
                state = conductor.state
            self._see(answer.effect or EffectView(token=report.token), answer)
        elif report.effect is None:
            # An execution before this one may have begun: only the fence can tell.
            await self._find_out(FenceOp.READ, None, before)
            state = conductor.state
        else:
            self._see(report.effect, report)
        if report.moved or self._has_followed(report.effect, standing):
            self._moved = self._follows
        conductor.show(self._moved.state if self._moved else state)
        if not self._moved and not report.begun and standing not in (None, state) and state != before:
            await conductor.write(conductor.order(move=conductor.move_to(state)))
        if report.begun:
            if report.effect is not None and report.effect.attempts == 1:
                conductor.goes_first()
            self._acted()
            self._count(report.said.value)
        self._note_end(report)

    def _note_end(self, report: Report) -> None:
        """What the end of an attempt means for the next one."""
        known = replace(self.known.settled(), unmade=not report.made, different=report.said is Said.DIFFERENT)
        if report.made:
            failed = report.said is not Said.STANDING
            definite = report.begun and report.said in (Said.NOT_DONE, Said.REFUSED)
            known = replace(
                known,
                failures=known.failures + failed,
                spared=known.spared + (failed and not report.counts),
                last=Status(report.said.value) if definite else None,
                retry_after=timedelta(seconds=report.retry_after) if report.retry_after else None,
            )
            if not report.begun and report.why and not known.effect.attempts:  # no record has the reason
                known = replace(known, effect=known.effect.model_copy(update={"why": report.why}))
        self.known = known

    async def _lost(self, failure: BaseException, before: str) -> None:
        """The activity gave no answer. The fence knows whether anything can have left (invariant 2)."""
        cause = failure.__cause__ if isinstance(failure, ActivityError) else failure
        why = "its worker was lost"
        if isinstance(cause, TimeoutError):
            if cause.type is TimeoutType.SCHEDULE_TO_START:
                self._conductor.show(self._back(before))
                self.known = replace(self.known, unmade=True)
                return
            why = f"its worker was lost ({cause.type.name.lower() if cause.type else 'time-out'})"
            if cause.last_heartbeat_details:
                self._progress = cause.last_heartbeat_details[0]
        # What was taken back from its line was never handed out: nothing is lost.
        op = FenceOp.READ if isinstance(cause, CancelledError) else FenceOp.LOST
        begun = await self._find_out(op, why, before)
        known = self.known.settled()
        # A lost attempt that is on record as not done may not have called anybody: only its report knew.
        self.known = replace(
            known,
            failures=known.failures + 1,
            spared=known.spared + (not begun or known.effect.status is Status.NOT_DONE),
            unmade=False,
            last=None,
            retry_after=None,
        )

    async def _find_out(self, op: FenceOp, why: str | None, before: str) -> bool:
        """Learn from the fence whether an attempt had begun that did not report so."""
        conductor = self._conductor
        answer = await conductor.write(conductor.order(fence=self._fence(op, why=why)))
        if answer.gate.over:
            raise Overtaken(answer.state)
        standing, view = self._today(answer.state), answer.effect or EffectView()
        begun = view.attempts > self.known.effect.attempts
        if self._has_followed(view, standing):
            self._moved = self._follows
            conductor.show(standing or conductor.state)
            self._acted()
        elif view.in_doubt and standing == before != conductor.state:
            # What is on record now is a doubt, in place of a record that was lost together with the state.
            await conductor.write(conductor.order(move=conductor.move_to(conductor.state)))
            self._acted()
        elif standing is not None and standing != conductor.state and not begun:
            conductor.show(self._back(before))
        elif (begun or op is FenceOp.LOST) and (view.in_doubt or not self._repeats):
            self._acted()  # else an earlier run has begun and settled it
        if begun:
            self._count(view.status.value)
        self._see(view, answer)
        return begun

    def _has_followed(self, view: EffectView | None, standing: str | None) -> bool:
        """Whether an attempt that gave no answer was done, and the state that follows was committed with it."""
        done = view is not None and view.status is Status.DONE
        return done and self._follows is not None and standing == self._follows.state

    def _see(self, view: EffectView, said: Report | Answer) -> None:
        """Learn what the fence knows, and the terms of the worker that read it."""
        of_each = said.terms or {} if isinstance(said, Answer) else {self.effect.identity: said.terms}
        terms = of_each.get(self.effect.identity)
        self.known = replace(self.known, effect=view, read=True, terms=self._own or terms or self.known.terms)
        self._seen_at = workflow.now()
        self._conductor.stay_ahead(view.version)

    async def _record(self, status: Status, why: str, *, receipt: Any = None, by: str | None = None) -> None:
        """Compare-and-set on the token that was read: whatever came in meanwhile stands."""
        fence = self._fence(FenceOp.RESOLVE, status=status, receipt=receipt, why=storable(why), by=storable(by))
        answer = await self._conductor.write(self._conductor.order(fence=fence))
        self._see(answer.effect or EffectView(), answer)
        self.known = self.known.settled()

    async def _read(self, op: FenceOp = FenceOp.READ, **more: Any) -> None:
        """Read the fence again, as every policy does before it repeats or escalates."""
        self.poked = False
        conductor, view = self._conductor, self.known.effect
        answer = await conductor.write(conductor.order(fence=self._fence(op, **more)))
        self._see(answer.effect or EffectView(), answer)
        if answer.gate.over:
            raise Overtaken(answer.state)
        if view.in_doubt and self.known.effect.status is Status.NOT_DONE:  # as in `_lost`, where the no comes later
            self.known = replace(self.known, spared=min(self.known.spared + 1, self.known.failures))
        begun, standing, enters = self.known.effect.attempts > view.attempts, self._today(answer.state), self._enters
        if not self._is_new or not begun or standing is None or enters is None:
            return
        # By a workflow task that was lost: the state was committed with the record. It is written again where this run
        # has shown an earlier state since.
        if conductor.states.allows(conductor.state, enters):
            if conductor.last_move > self.known.effect.version:
                await conductor.write(conductor.order(move=conductor.move_to(enters)))
            conductor.show(enters)

    def _fence(self, op: FenceOp, *, token: str | None = None, **more: Any) -> Fence:
        return Fence(
            op=op,
            key=self.key,
            effect=self.slot,
            token=token or self.known.effect.token or "",
            in_flight=self.timeout.total_seconds(),
            since=self._since,
            began=self._conductor.began,
            **more,
        )

    def _back(self, before: str) -> str:
        """The state after an attempt that was not begun: the one before it, unless something else moved it since."""
        return before if self._conductor.state == self._shown else self._conductor.state

    def _today(self, state: str | None) -> str | None:
        return None if state is None else self._conductor.states.today(state)

    def _count(self, outcome: str) -> None:
        """An attempt has ended."""
        lifecycle = self._conductor.entity.lifecycle
        metrics.count(
            workflow.metric_meter(), names.ATTEMPTS, lifecycle=lifecycle, effect=self.effect.name, outcome=outcome
        )
