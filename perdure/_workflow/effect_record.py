"""The facts of one performance about its effect: the fence's record, and the reports of its attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow

from perdure._wire.carried import Unsettled
from perdure._wire.known import Known
from perdure._wire.orders import CallResult, Report
from perdure._wire.terms import OwnTerms, Terms, terms_of
from perdure._wire.writes import Answer, EffectView, Fence, FenceOp
from perdure._workflow.passing import earliest_call
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState, microseconds
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Key, slot_of
from perdure.contracts.outcomes import EffectStatus

In = TypeVar("In")
Out = TypeVar("Out")


class EffectRecord(Generic[In, Out]):
    """The facts about one effect.

    Args:
        given: the input of the effect, as JSON data.
        suffix: distinguishes several performances of the effect.
        own: terms of this performance in place of the contract's.
        key: the key of a doubt that was left; None = the key of a performance that begins now.

    Attributes:
        slot: today's name of the effect, with the suffix.
        name, inline: how this run calls the effect. The history decides that, and not today's contract.
        left: the state in which the previous run, or the one that settled its doubt in this run, left the effect.
        known: the facts for `decide`.
        seen_at: time at which the fence's record was last read.
        asked_at: time at which the last call or write about the effect was ordered.
        barred_at: time at which the last write was ordered that keeps older orders from beginning; None = there is
            none, or the run has paused since, and a lost workflow task may have ordered an attempt after the pause.
        progress: the progress in the last attempt's last heartbeat.
        asked: whether the record was read, or the other side was asked; an earlier run that left it may have done that.
    """

    def __init__(
        self,
        run: RunState,
        recorder: Recorder,
        effect: Effect[In, Out],
        given: Any,
        suffix: str | None,
        own: OwnTerms | None,
        key: Key | None = None,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self.effect = effect
        self.input = given
        self.own = own
        self._suffix = suffix
        begun_with = run.effects.terms.get(effect.identity)
        self.name = begun_with.name if begun_with else effect.identity
        self.slot = slot_of(effect.name, suffix)
        self._first_slot = slot_of(effect.identity, suffix)
        """The same with the effect's first name, as the ledger has it."""
        self.inline = begun_with.inline if begun_with else effect.inline
        self.key = key or run.effects.new_key(run.entity, effect, suffix)
        self._begun_with = begun_with
        self.go_on_from(run.effects.unsettled.get(self.key) or Unsettled(known=Known()))
        self.asked_at = workflow.now()
        self.barred_at: datetime | None = None
        self._since = self.left.since or self._ordered_first()
        self._was_lost = self.known.effect.record_lost

    def go_on_from(self, left: Unsettled) -> None:
        """Take the facts of the performance that left the effect. They stay valid: its failures count, and its doubt
        needs no second read of the fence."""
        self.left = left
        self.known = replace(left.known, read=False, terms=self._own_over(left.known.terms or self._begun_with))
        self.seen_at = left.seen_at or workflow.now()
        self.progress = left.progress
        self.asked = left.effect is not None

    def _ordered_first(self) -> int:
        """The earliest time at which the effect can have been ordered, in microseconds. If records were lost after that
        time, the fence does not take an effect without a record for untouched."""
        run, at = self._run, earliest_call() if self.inline else workflow.now()
        repeats = self.repeats or self.left.effect is not None or run.effects.performed_more
        if run.gaps or (run.recovered and repeats):  # a run before this chain may have performed it
            return microseconds(run.started_at)
        repeats = repeats or run.effects.was_performed(self.key)
        first = run.began if repeats or at is None else microseconds(at)
        return min(first, run.other_way_since or first) if self.inline else first

    def goes_another_way(self) -> None:
        """Note that the author's code continues without the receipt. If the record of an attempt was lost, a workflow
        task that was lost as well may have continued with it, to inline effects that this run orders later."""
        if self._was_lost:
            self._run.takes_another_way(self.since)

    @property
    def since(self) -> datetime:
        """The earliest time at which the effect can have been ordered."""
        return datetime.fromtimestamp(self._since / 1_000_000, UTC)

    @property
    def is_new(self) -> bool:
        """Whether no earlier run has performed the effect to its end."""
        earlier = self._run.effects.performed_before
        return not self._run.catching_up or (earlier is not None and self._first_slot not in earlier)

    @property
    def goes_on(self) -> bool:
        """Whether no earlier run has performed the effect to its end, or one has left it under way."""
        return self.is_new or self.left.effect is not None

    @property
    def repeats(self) -> bool:
        """Whether an earlier run may have performed the effect."""
        return self._run.catching_up or self._first_slot in (self._run.effects.performed_before or ())

    @property
    def may_be_done_before(self) -> bool:
        """Whether a record that shows the effect as done may be that of an earlier run. After a retry the effect is
        performed anew."""
        run, earlier = self._run, self._run.effects.performed_before
        if run.requests.retry is not None:
            return False
        return run.catching_up if earlier is None else self._first_slot in earlier

    @property
    def is_behind(self) -> bool:
        """Whether the previous run came further than this one. If the database has lost the record of an effect that an
        earlier run performed to its end, the effect is settled again. After a retry it is performed anew."""
        run = self._run
        repeats = run.catching_up and run.requests.retry is None
        return repeats and self._first_slot in (run.effects.performed_before or ())

    @property
    def in_doubt(self) -> bool:
        """Whether the outcome of an attempt is unknown."""
        return self.known.effect.in_doubt

    @property
    def timeout(self) -> timedelta:
        """The time-out of the next call. `decide` uses it to judge whether a call still fits into a window."""
        return (self.known.terms or self.effect).timeout

    @property
    def limited(self) -> bool:
        """Whether a cancel withdraws the next attempt while it waits for its turn."""
        return (self.known.terms or terms_of(self.effect)).limited

    def note(self, **changes: Any) -> None:
        """Change the facts; see `Known`."""
        self.known = replace(self.known, **changes)

    def unsettled(self, **more: Any) -> Unsettled:
        """The data about the effect for the next run."""
        return Unsettled(
            known=replace(self.known, terms=None),  # a new run takes today's terms
            seen_at=self.seen_at,
            progress=self.progress,
            since=self._since,
            effect=self.effect.identity,
            suffix=self._suffix,
            given=self.input,
            own=self.own,
            **more,
        )

    def fence(self, op: FenceOp, *, token: str | None = None, **more: Any) -> Fence:
        """The fence part of a write about this effect, which is ordered now."""
        self.asked_at = workflow.now()
        return Fence(
            op=op,
            key=self.key,
            effect=self.slot,
            token=token or self.known.effect.token or "",
            in_flight=self.timeout.total_seconds(),
            since=self._since,
            began=self._run.began,
            inline=self.inline,
            **more,
        )

    async def ask(self, op: FenceOp, **more: Any) -> Answer:
        """Read or change the record. The caller evaluates the answer."""
        self.asked = True
        if op in (FenceOp.LOST, FenceOp.BAR):
            self.barred_at = workflow.now()
        return await self._recorder.fence(self.fence(op, **more))

    def see(self, view: EffectView, source: Report | Answer) -> None:
        """Use this view of the record, and the terms of the worker that read it."""
        of_each = source.terms or {} if isinstance(source, Answer) else {self.effect.identity: source.terms}
        terms = of_each.get(self.effect.identity)
        if terms is None:
            self.note(effect=view, read=True)
        else:
            self.note(effect=view, read=True, terms=self._own_over(terms))
        self._was_lost = self._was_lost or view.record_lost
        self.seen_at = workflow.now()
        self._run.stay_ahead(view.version)

    def _own_over(self, terms: Terms | None) -> Terms | None:
        """The terms of this performance, from those of the run; None = an older release began the run, and today's
        contract holds."""
        return terms if self.own is None else self.own.over(terms or terms_of(self.effect))

    def take_progress(self, progress: Any) -> None:
        """Note the progress that an attempt has reported."""
        self.progress = progress

    def note_end(self, report: Report) -> None:
        """Note the end of an attempt, for the next decision."""
        known, different = self.known, report.result is CallResult.DIFFERENT
        self.barred_at = self.asked_at if report.begun else None
        if not report.made:
            self.known = known.settled(unmade=True, different=different)
            return
        failed, effect = report.result is not CallResult.STANDING, known.effect
        definite = report.begun and report.result in (CallResult.NOT_DONE, CallResult.REFUSED)
        if not report.begun and report.why and not effect.attempts:  # no record has the reason
            effect = effect.model_copy(update={"why": report.why})
        self.known = known.settled(
            effect=effect,
            failures=known.failures + failed,
            spared=known.spared + (failed and not report.counts),
            unmade=False,
            last=EffectStatus(report.result.value) if definite else None,
            retry_after=timedelta(seconds=report.retry_after) if report.retry_after else None,
            different=different,
        )

    def note_loss(self, begun: bool) -> None:
        """Note the loss of an attempt, for the next decision; `begun`: whether the attempt was recorded."""
        known, view = self.known, self.known.effect
        # A lost attempt that is recorded as not done may have made no call. Only its lost report showed that. A record
        # in place of one that was lost does not show either that an attempt has begun.
        spared = not begun or view.record_lost or view.status is EffectStatus.NOT_DONE
        self.known = known.settled(
            failures=known.failures + 1,
            spared=known.spared + spared,
            unmade=False,
            last=None,
            retry_after=None,
        )

    def note_resolution(self) -> None:
        """Note that a person has settled the effect: failures are counted anew."""
        self.known = self.known.settled(failures=0, spared=0)
