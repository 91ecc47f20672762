"""Changes the state of a run: checks the declaration, and commits the state in the mirror."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from temporalio import workflow

from perdure._workflow.leaving import Cancelled, Overtaken, in_handler
from perdure._workflow.ordering import let_others_begin
from perdure._workflow.reading import read
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.waiter import Waiter

STAYS_ALONE = "perdure: an end waits for effects that began behind another state"


class Transitions:
    """Changes the state of one run.

    Args:
        settle_doubts: settles the doubts that `run` has not come back to.

    Attributes:
        moving: whether a move is being written.
    """

    def __init__(
        self, run: RunState, recorder: Recorder, waiter: Waiter, settle_doubts: Callable[[], Awaitable[None]]
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._waiter = waiter
        self._settle_doubts = settle_doubts
        self.moving = False

    async def enter(self, state: str, why: str | None = None) -> bool:
        """Move the mirror to `state`; see `Lifecycle.enter`. Returns whether no earlier run can have done that."""
        _ = self._run.declared[state]
        if self._passed(state):
            return False
        await self._until_alone(state)
        is_first = await self.move(state, why, checked=True)
        self._run.events.went_on()
        return is_first

    async def until_open(self, state: str | None = None) -> None:
        """Before a move to `state`, or a write of the present state (None), wait for a move that is being written: an
        end may be refused, and another state that is on record earlier would be the last one.

        Raises:
            Overtaken: the entity has ended, and not in `state`. The database may have lost that end since.
        """
        await self._waiter.quiet(lambda: not self.moving)
        if self._run.final and state != self._run.state:
            raise Overtaken(self._run.state)

    @property
    def ending(self) -> bool:
        """Whether an end is being written, which the database may refuse."""
        return self.moving and self._run.final

    async def until_decided(self) -> None:
        """Before an update is handled, or an effect performed, wait for an end that is being written. It does not wait
        for another move, since that one waits as long as PostgreSQL is away.

        Raises:
            Overtaken: the entity has ended.
        """
        await self._waiter.quiet(lambda: not self.ending)
        if self._run.final:
            raise Overtaken(self._run.state)

    async def save(self) -> None:
        """Commit the present state with the snapshot. Beside an end that is refused, the snapshot would be refused with
        it.

        Raises:
            Overtaken: the entity has ended.
        """
        await self.until_open()
        await self._recorder.move_here("saved")
        self._run.events.went_on()

    async def follow(self, state: str) -> None:
        """Enter the state `then` of a done effect. It was checked before the effect, because a done effect must not
        fail."""
        if not self._passed(state):
            await self._until_alone(state)
            await self.move(state)

    async def move(self, state: str, why: str | None = None, by: str | None = None, *, checked: bool = False) -> bool:
        """Commit `state`. A final state is committed after all recorded doubts are settled. Returns whether no earlier
        run can have done that.

        Args:
            checked: the present state has to lead to `state`.

        Raises:
            DeclarationError: it does not.
        """
        again = self._run.may_have_left(state)
        while True:
            await self.until_open(state)
            if self._is_beside(state):  # a handler has begun an effect while another state was being written
                await self._until_alone(state)
                continue
            before = self._run.standing  # a handler may have entered another state while the end waited
            if checked:
                self._run.check_move(self._run.state, state)
            if state == self._run.state:
                self._run.stay(why)
            self._recorder.show(state, why)
            self.moving = True
            try:
                answer = await self._recorder.move(state, why, by)
            finally:
                self.moving = False
            if not answer.unsettled:
                break
            self._recorder.show_again(before)
            for key in answer.unsettled:  # an attempt of a newer build
                read(self._run, f"the effect of {key}", partial(self._run.effects.check_declared, key))
            for given_up in self._run.effects.find_doubts(answer.unsettled, workflow.now()):
                await self._recorder.fence(given_up)
            await self._until_alone(state)  # a handler may have begun an effect while the end was being written
        self.committed(state)
        if again:
            self._recorder.count_state()
        else:
            self._recorder.acted()
        return not again

    def committed(self, state: str) -> None:
        """Note that `state` is on record. If it is final, branches and handlers that still wait are left. The present
        state may be an end that another branch writes now, and that the database may refuse."""
        if self._run.declared[state].final:
            self._waiter.overtaken(Overtaken(state))

    def _passed(self, state: str) -> bool:
        """Whether a run that catches up has passed this state before.

        Raises:
            Cancelled: it has not, and a cancel has ended it.
        """
        run = self._run
        if run.requests.stopped:
            if state != run.state and run.declared.allows(run.state, state):
                raise Cancelled
            return True
        if in_handler():  # of a message, which may have been delivered again
            return run.catching_up and state != run.state and not run.leads_on(state)
        comes_back = run.behind and state == run.state
        run.come_to(state)
        if not run.branch_catches_up:
            return comes_back or run.has_passed(state)
        run.step_towards(state)
        return state == run.state or not run.leads_on(state)

    def _is_beside(self, state: str) -> bool:
        """Whether `state` is final, and an effect is under way."""
        is_final = self._run.declared[state].final
        return bool(is_final and self._run.effects.performances) and workflow.patched(STAYS_ALONE)

    async def _until_alone(self, state: str) -> None:
        """Before a final state, wait for the effects under way, and settle doubts that were left."""
        if self._run.declared[state].final:
            await let_others_begin()
            while self._run.effects.performances:
                # Effects note by themselves whether they bring the run further: a branch may only catch up.
                await self._waiter.pause(None, lambda: not self._run.effects.performances, moves=lambda: False)
            await self._settle_doubts()
