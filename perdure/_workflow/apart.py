"""Updates that Temporal's core gives to the code together with earlier workflow tasks, and in a replay apart from them.

Core merges a workflow task without a command, as one that heartbeats, with the next one for a worker that takes the run
over. An accepted update would act before the code of the earlier task, and in a replay after it.
"""

from __future__ import annotations

from temporalio import workflow

from perdure._workflow.passing import Events

_FIRST_TASK = 3
"""Length of a history in the first workflow task, unless that is made again."""
_HEARTBEAT_LOST = 9
"""Length of the shortest history whose first workflow task was a heartbeat, and whose second one was lost."""


class Apart:
    """Keeps the updates of one run apart from earlier workflow tasks."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._began_at: int | None = None
        """Length of the history in the first workflow task that this worker has of the run."""
        self._updates = 0
        length = workflow.info().get_current_history_length()
        anew = length >= _HEARTBEAT_LOST and not workflow.unsafe.is_replaying()
        self._made_anew_at = length if anew else None
        """Length of the history, if this worker makes again what a lost worker had begun in the first workflow task."""

    @property
    def refuses(self) -> bool:
        """Whether this workflow task makes again what a lost worker had begun in the first one. There, messages, a
        cancellation and the time come at another place as well. A refused update stands in no history.
        """
        return self._made_anew_at == workflow.info().get_current_history_length()

    def look(self) -> None:
        """Note the first workflow task that this worker has of the run."""
        if self._began_at is None and not workflow.unsafe.is_replaying():
            self._began_at = workflow.info().get_current_history_length()

    async def until_next(self) -> bool:
        """Before an update acts in the first workflow task that a worker has of the run, wait for the next task.

        Returns whether it has waited.
        """
        self._updates += 1
        length = workflow.info().get_current_history_length()
        if not workflow.unsafe.is_replaying() and (self._began_at != length or length <= _FIRST_TASK):
            return False
        if not workflow.patched(f"perdure: update {self._updates} acts later"):
            return False
        await self._events.next_task("the update has a task of its own")
        return True
