"""The moves of attempts: the state that is committed with the record of an attempt, the one that is committed with its
outcome, and the one that holds after an attempt that has made neither."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from perdure._wire.orders import Report
from perdure._wire.writes import Answer, EffectView, Move, Write
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.ordering import let_others_begin
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import DeclarationError

SHOWN_FIRST = "perdure: the state of an attempt is shown before it is written again"


class AttemptMoves:
    """The moves of the attempts of one performance.

    Args:
        entering: the state that is committed with the first attempt's record.
        then: the state to enter if the effect is done.
    """

    def __init__(
        self,
        run: RunState,
        recorder: Recorder,
        record: EffectRecord[Any, Any],
        *,
        entering: str | None,
        then: str | None,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._record = record
        self._enters = entering
        self._then = then
        self._may_enter = False
        """Whether an attempt of this run was allowed to enter its state."""
        self._shown: str | None = None
        """The state to enter with the record of the last attempt."""
        self._ordered_at = 0
        """Version of the write that begins the last attempt."""
        self._before = self._made = run.standing
        """Where the run was before that, and where it is shown to be since then."""
        self._follows: Move | None = None
        """The move to `then`, to commit with the outcome of the last attempt if the effect is done. None: the outcome
        is on record."""
        self._follows_at = 0
        """Version of the write with that move."""
        self._moved: Move | None = None
        """The same, if it was committed."""

    def check(self) -> None:
        """Check `then` once, from the state of the first attempt, before anything is sent. An effect that is done must
        not fail the run."""
        if self._run.requests.stopped:  # no attempt begins before the end
            return
        origin = self._enters or (None if self._run.catching_up else self._run.state)
        if self._then is not None and origin is not None and not self._run.has_passed(self._then):
            self._run.check_move(origin, self._then)

    async def until_others_begin(self) -> None:
        """Before an attempt whose outcome may end the entity, let other branches begin their effects."""
        if self._then is not None and self._run.declared[self._then].final:
            await let_others_begin()

    def begin(self) -> Move | None:
        """Show the state of the next attempt. Returns the move to commit with its record; None = it makes none.

        Raises:
            DeclarationError: the present state does not lead there, or the state is final.
        """
        self._before = self._run.standing
        move = self._entering()
        self._made = self._run.standing
        self._shown = None if move is None else move.state
        return move

    def follow(self, begin: Write) -> Write | None:
        """The write to commit with the outcome of the attempt that `begin` begins, if the effect is done. None beside
        other effects under way, because an end would leave them without an entity."""
        self._ordered_at, self._follows, self._moved = begin.version, None, None
        run, then = self._run, self._then
        alone = len(run.effects.performances) == 1 and not run.effects.doubts_left
        if then is None or not alone or not run.declared.allows(run.state, then):
            return None
        self._follows = self._recorder.move_to(then)
        order = self._recorder.order(move=self._follows)
        self._follows_at = order.version
        return order

    @property
    def may_end(self) -> bool:
        """Whether the outcome of an attempt may still end the entity."""
        if self._follows is not None:
            return self._follows.final and self._recorder.last_move < self._follows_at
        # An earlier run may have ordered it, and this one has written no state since.
        is_end = self._then is not None and self._run.declared[self._then].final
        return is_end and self._run.continues and self._recorder.last_move == 0

    def after(self, entered: bool) -> str:
        """The state after an attempt that has `entered` its state, or has not."""
        return self._run.state if entered else self._back()

    def on_record(self, answer: Answer, entered: bool) -> str:
        """The state after an attempt whose outcome the workflow had to put on record.

        Args:
            answer: that of the database, which may know more.
        """
        known = self._run.today(answer.state)
        # A lost workflow task entered a later state. This run will enter that state too. If another branch has entered
        # a state meanwhile, that state holds.
        if known is not None and self._holds() and known in (self._before.state, self._shown):
            return known
        if answer.effect is not None and answer.effect.attempts:  # its state was committed with its record
            return self._run.state
        return self.after(entered)

    async def show_end(self, report: Report, state: str, *, stands: bool) -> None:
        """Show where the run is after an attempt that has reported, and write it again if that is necessary.

        Args:
            state: the state after the attempt, if `then` was not committed with its outcome.
            stands: whether the record was standing when the attempt came, and no earlier run has made it.
        """
        run, recorder, standing = self._run, self._recorder, self._run.today(report.state)
        if report.moved or (not report.begun and self.ended_in_then(report.effect, standing)):
            self._moved = self._follows
        elif stands:  # a lost workflow task made the attempt, and a message came before this one
            state = await self.show_over(state)
        if not self._record.in_doubt:  # else another execution of the attempt may still commit it
            self._follows = None
        if self._moved is not None:
            # While an end is being written, `then` is not shown: the end holds, or the effect enters `then` once more.
            self._show(state if run.final else self._moved.state)
            return
        self._show(state)
        shows_another = standing not in (None, state)
        if report.begun and shows_another and len(run.effects.performances) == 1:
            # Made by a lost workflow task after an earlier attempt; beside other effects, it may be the `then` of one.
            recorder.note_outdated(report.version)
        if not report.begun and shows_another and state != self._before.state:
            await recorder.move(state)
        elif report.late and self._shown == state != self._before.state:
            await recorder.move_again(state)
        else:
            await self._write_back(state)

    async def show_over(self, state: str) -> str:
        """Write the state of an attempt again if another write of this run shows the earlier state, or will. Returns
        the state then: another branch may enter one meanwhile."""
        if state == self._shown != self._before.state and self._recorder.overwrites(self._record.known.effect.version):
            await self._recorder.move(state)
            return self._run.state
        return state

    async def show_entered(self, standing: str | None, begun_at: int) -> None:
        """An attempt that this run has not made is on record. If an earlier run has performed the effect, only the
        mirror can show that a lost workflow task has committed its state with the record. The state is written again
        if this run has shown an earlier state since.

        Args:
            standing: the state that the mirror shows.
            begun_at: version of the attempt's record; 0 = not known.
        """
        run, enters = self._run, self._enters
        if standing is None or enters is None or not (self._record.is_new or standing == enters):
            return
        if run.requests.stopped:  # the state on record is that of `cancelling`, or of a handler
            return
        if run.declared.allows(run.state, enters):
            writes = standing in (run.state, enters) and self._recorder.overwrites(begun_at)
            shows_first = not writes or workflow.patched(SHOWN_FIRST)
            if shows_first:  # a write that another branch orders meanwhile has to show this state
                self._recorder.show(enters)
            if writes:
                await self._recorder.move(enters)
            if not shows_first:
                self._recorder.show(enters)

    def ended_in_then(self, view: EffectView | None, standing: str | None) -> bool:
        """Whether an attempt without an answer was done, and its `then` was committed with the outcome."""
        done = view is not None and view.status is EffectStatus.DONE
        return done and self._follows is not None and standing == self._follows.state

    def show_then(self) -> None:
        """Show `then`, which an attempt without an answer has committed."""
        self._moved = self._follows
        if self._moved is not None and not self._run.final:
            self._recorder.show(self._moved.state)

    def is_ahead_of(self, standing: str | None) -> bool:
        """Whether the mirror shows the state before the attempt, and this run shows another one."""
        return standing == self._before.state != self._run.state

    async def go_back(self) -> None:
        """Show the state after an attempt that did not begin, and write it again if that is necessary."""
        self._show(state := self._back())
        await self._write_back(state)

    def hides(self) -> bool:
        """Whether an attempt has entered its state, and the mirror shows an earlier state: a workflow task that was
        lost made the attempt, the next task wrote the earlier state, and then Temporal lost the history."""
        entered, declared, state = self._enters, self._run.declared, self._run.state
        if entered is None or not self._record.known.effect.attempts:
            return False
        if state == entered or not declared.allows(state, entered):
            return False
        return not declared.leads(entered, state)

    def has_followed(self) -> bool:
        """Whether `then` was committed with the outcome, together with the present snapshot and memory."""
        moved, then = self._moved, self._then
        if moved is None or then is None or self._run.state != then or self.is_overwritten():
            return False
        now = self._recorder.move_to(then)
        return moved.final or moved == now.model_copy(update={"memory": moved.memory})

    def is_overwritten(self) -> bool:
        """Whether `then` was committed with the outcome, and a write or an attempt that was ordered later shows another
        state."""
        moved, recorder = self._moved, self._recorder
        later = max(recorder.last_move, recorder.last_entering) > self._follows_at
        return moved is not None and not moved.final and later

    def show_without_then(self) -> None:
        """The database has lost the outcome, and `then` with it: show the state of the attempt again."""
        if self._moved is not None and self._run.state == self._moved.state:
            self._recorder.show_again(self._made)
        self._moved = None

    def _entering(self) -> Move | None:
        run, entering = self._run, self._enters
        if entering is None:
            return None
        run.come_to(entering)
        if entering == run.state:
            return None
        was_there = run.branch_catches_up or run.has_passed(entering) or self._record.known.effect.attempts > 0
        leads_on = run.declared.allows(run.state, entering) if self._record.goes_on else run.leads_on(entering)
        if was_there and not leads_on:
            return None
        if not self._may_enter:  # later the run may have gone back from a state that another branch had entered
            run.check_move(run.state, entering)
            self._may_enter = True
        if run.declared[entering].final:
            raise DeclarationError(
                f"{self._record.key}: entering={entering!r} is a final state: it can only follow, by then="
            )
        self._recorder.show(entering)
        return self._recorder.move_to(entering)

    def _back(self) -> str:
        """The state after an attempt that did not begin: the earlier state, unless another move was made since."""
        if self._holds():
            return self._before.state
        if self._shown is not None:  # that move may be undone too, and must not go back to a state that was not entered
            self._made.become(self._before)
        return self._run.state

    def _holds(self) -> bool:
        """Whether the move of the attempt is the last one. Another branch may have entered the same state since."""
        return self._shown is not None and self._run.standing is self._made

    def _show(self, state: str) -> None:
        """Show the state after an attempt. If that is the earlier one, no move was made."""
        if state == self._before.state:
            self._recorder.show_again(self._before)
        else:
            self._recorder.show(state)

    async def _write_back(self, state: str) -> None:
        """Write `state` again if it is the one before an attempt that did not begin: a write of another branch, which
        was ordered meanwhile, shows the state of the attempt."""
        went_back = self._shown is not None and state == self._before.state != self._shown
        if went_back and self._recorder.last_move > self._ordered_at:
            await self._recorder.move(state)
