"""How a run changes its state: checked against what is declared, and committed in the mirror."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio import workflow

from perdure._workflow.leaving import Cancelled
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.waiter import Waiter


class Transitions:
    """Changes the state of one run.

    Args:
        settle_doubts: settles what is in doubt and `run` has not come back to.
    """

    def __init__(
        self, run: RunState, recorder: Recorder, waiter: Waiter, settle_doubts: Callable[[], Awaitable[None]]
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._waiter = waiter
        self._settle_doubts = settle_doubts

    async def enter(self, state: str, why: str | None = None) -> None:
        """Move the mirror to `state`; see `Lifecycle.enter`."""
        _ = self._run.declared[state]
        if not self._passed(state):
            await self._until_alone(state)
            self._run.check_move(self._run.state, state)
            await self.move(state, why)

    async def follow(self, state: str) -> None:
        """Enter a state that was declared before its effect was done, and checked then: what is done must not fail."""
        if not self._passed(state):
            await self._until_alone(state)
            await self.move(state)

    async def move(self, state: str, why: str | None = None, by: str | None = None) -> None:
        """Commit `state`; a final one when what the run did not know of is settled."""
        before = self._run.state
        while True:
            self._recorder.show(state, why)
            answer = await self._recorder.move(state, why, by)
            if not answer.unsettled:
                break
            self._recorder.show(before)
            for given_up in self._run.effects.find_doubts(self._run.entity, answer.unsettled, workflow.now()):
                await self._recorder.fence(given_up)
            await self._settle_doubts()
        self._recorder.acted()

    def _passed(self, state: str) -> bool:
        """Whether a run that catches up was there before.

        Raises:
            Cancelled: it was not, and has been ended by a cancel.
        """
        run = self._run
        if run.asked.was_cancelling and not run.asked.cancelling:
            if state != run.state and run.declared.allows(run.state, state):
                raise Cancelled
            return True
        run.come_to(state)
        if not run.catching_up:
            return run.has_passed(state)
        return not run.step_towards(state) or not run.declared.allows(run.state, state)

    async def _until_alone(self, state: str) -> None:
        """A final state is entered after whatever is being performed, or was left in doubt."""
        if self._run.declared[state].final:
            while self._run.effects.performances:
                await self._waiter.pause(None, lambda: not self._run.effects.performances)
            await self._settle_doubts()
