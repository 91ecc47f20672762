"""The activities that a worker process has under way: those of a real worker, in Temporal's own activity context."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from temporalio.exceptions import ApplicationError

from perdure.testing.exploring.runs import Run
from perdure.testing.exploring.virtual_time import VirtualTime
from perdure.testing.server_activities import ActivityCall, ActivityContext, ActivityEnd, Completed, Failed

Function: TypeAlias = tuple[Callable[..., Any], list[type] | None]
"""The function of an activity type, with the types of its arguments."""


class Gone(BaseException):
    """The process does not exist any more; no code of it may take this for an error that it can handle."""


class Calls:
    """Runs activities.

    Args:
        loop: the world's.
        functions: by activity type.
        enter: called in the context of each activity, before its task is made.
        here: awaited before an activity's end is reported; raises `Gone` where the process was killed.
    """

    def __init__(
        self,
        loop: VirtualTime,
        functions: Mapping[str, Function],
        enter: Callable[[], None],
        here: Callable[[], Awaitable[None]],
    ) -> None:
        self._loop, self._functions, self._enter, self._here = loop, functions, enter, here
        # In the order in which they began; that of a set depends on addresses in memory, and differs in each process.
        self._contexts: dict[ActivityContext, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._stopped = False

    def begin(
        self,
        call: ActivityCall,
        run: Run,
        ended: Callable[[ActivityEnd], None],
        beats: Callable[[Sequence[Any]], bool],
    ) -> ActivityContext:
        """Run an activity; returns its context, by which it can be cancelled.

        Args:
            ended: called with its end.
            beats: called with the details of each heartbeat; False where the server has given the activity up.
        """
        about = ActivityContext(call, run.workflow_id, run.run_id, run.lifecycle, beats)
        known = self._functions.get(call.activity_type)
        if known is None:
            ended(Failed(ApplicationError(f"no activity {call.activity_type!r}", type="NotFoundError")))
            return about
        if self._stopped:
            about.stop()
        context = contextvars.Context()  # not that of another worker's activity, whose end has led to this one
        context.run(self._enter)
        context.run(about.enter)
        task = self._loop.create_task(self._play(*known, call, about, ended), context=context)
        self._contexts[about] = self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return about

    def stop(self) -> None:
        """Note a request to stop the worker."""
        self._stopped = True
        for each in list(self._contexts):
            each.stop()

    def close(self) -> None:
        """Put all of them away."""
        for task in self._tasks:
            task.cancel()

    async def _play(
        self,
        function: Callable[..., Any],
        types: list[type] | None,
        call: ActivityCall,
        about: ActivityContext,
        ended: Callable[[ActivityEnd], None],
    ) -> None:
        try:
            value = await about.attend(function(*call.args(types)))
            await self._here()
        except Gone:
            return
        except asyncio.CancelledError:
            return  # nobody waits for its end: it was given up, or the world is put away
        except Exception as error:
            end: ActivityEnd = Failed(error if isinstance(error, ApplicationError) else _failure(error))
        else:
            end = Completed(value)
        finally:
            self._contexts.pop(about, None)
        ended(end)


def _failure(error: Exception) -> ApplicationError:
    return ApplicationError(str(error), type=type(error).__name__)
