"""Updates that Temporal's core gives to the code together with earlier workflow tasks, and in a replay apart from them.

Core merges a workflow task without a command, as one that heartbeats, with the next one for a worker that takes the run
over. An accepted update would act before the code of the earlier task, and in a replay after it.
"""

from __future__ import annotations

from datetime import datetime

from temporalio import workflow

from perdure._wire.requests import SENT_AGAIN
from perdure._workflow.passing import Events

_FIRST_TASK = 3
"""Length of a history in the first workflow task, unless that is made again."""
_HEARTBEAT_LOST = 9
"""Events by which a history has grown at least, since the workflow task before, in one that makes again what a lost
worker had begun: a heartbeat ended that task, and the next one was lost."""


class Apart:
    """Keeps the updates of one run apart from earlier workflow tasks."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._replayed = 0
        """Length of the history in the last workflow task that this worker has replayed."""
        self._first: tuple[int, datetime] | None = None
        """Length of the history, and time, in the first workflow task that this worker has of the run."""
        self._may_be_merged = False
        """Whether that task may make again what a lost worker had begun."""
        self._updates = 0
        self.look()

    def look(self) -> None:
        """Note the first workflow task that this worker has of the run."""
        here = _here()
        if workflow.unsafe.is_replaying():
            self._replayed = here[0]
        elif self._first is None:
            self._first = here
            self._may_be_merged = here[0] - self._replayed >= _HEARTBEAT_LOST

    @property
    def refuses(self) -> bool:
        """Whether this workflow task may make again what a lost worker had begun, and the present update is refused.
        There, messages, a cancellation and the time come at another place as well. A refused update stands in no
        history. One that Perdure's client sends again is accepted: it comes half a second later, in another task."""
        self.look()
        update = workflow.current_update_info()
        sent_again = update is not None and update.id.startswith(SENT_AGAIN)
        return self._may_be_merged and self._first == _here() and not sent_again

    async def until_next(self) -> bool:
        """Before an update acts in the first workflow task that a worker has of the run, wait for the next task.

        Returns whether it has waited.
        """
        self._updates += 1
        here = _here()
        if not workflow.unsafe.is_replaying() and (self._first != here or here[0] <= _FIRST_TASK):
            return False
        if not workflow.patched(f"perdure: update {self._updates} acts later"):
            return False
        await self._events.next_task("the update has a task of its own")
        self.look()
        self._may_be_merged = False  # what was accepted once is not refused in that task
        return True


def _here() -> tuple[int, datetime]:
    """The present workflow task. One that has only refused updates leaves no event, so the next one is as long."""
    return workflow.info().get_current_history_length(), workflow.now()
