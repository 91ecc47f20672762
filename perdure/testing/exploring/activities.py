"""Regular activities in virtual time, with all their time-outs.

An activity is lost by its heartbeat, and what its worker reports later is dropped. Its retries are the server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, TimeoutType

from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.runs import DISPATCH, Run
from perdure.testing.server_activities import (
    ActivityCall,
    ActivityEnd,
    Cancelled,
    Failed,
    TimedOut,
    activity_call,
    activity_job,
    stays_when_cancelled,
)

if TYPE_CHECKING:
    from perdure.testing.exploring.workers import Worker
    from perdure.testing.exploring.world import World

SECONDS_OF_TURN = 3.0
"""Between two activities of one rate limit."""


@dataclass(eq=False)
class Activity:
    """A regular activity from its schedule to its end."""

    call: ActivityCall
    stays_when_cancelled: bool
    attempt: int = 1
    worker: Worker | None = None
    cancel_requested: bool = False
    beat_at: float = 0.0
    details: tuple[Any, ...] = ()
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    over: bool = False

    def end(self) -> None:
        """Nothing happens to it any more."""
        self.over = True
        self.stop_timers()

    def stop_timers(self) -> None:
        for timer in self.timers:
            timer.cancel()


class Activities:
    """The regular activities of one run.

    Args:
        world: the loop and the workers.
        run: to which their ends are reported.
        add_job: adds a job to the next workflow task, with the number of its events.
    """

    def __init__(self, world: World, run: Run, add_job: Callable[[sdk.WorkflowActivationJob, int], None]) -> None:
        self._world, self._run, self._add_job = world, run, add_job
        self._open: dict[int, Activity] = {}
        self._stay_when_cancelled: set[int] = set()
        """Those whose end the workflow awaits also after it has cancelled them, by their numbers."""

    def get(self, seq: int) -> Activity | None:
        """One that has not ended."""
        return self._open.get(seq)

    def close(self) -> None:
        """The run is over."""
        for activity in self._open.values():
            activity.end()

    def schedule(self, command: sdk.ScheduleActivity) -> None:
        """Schedule an activity for the workflow."""
        call = activity_call(command, self._world.loop.now, self._world.host_of(self._run.lifecycle))
        activity = self._open[call.seq] = Activity(call, stays_when_cancelled(command))
        if activity.stays_when_cancelled:
            self._stay_when_cancelled.add(call.seq)
        self._wait_for_worker(activity)

    def cancel(self, seq: int) -> None:
        """Cancel an activity for the workflow."""
        activity = self._open.get(seq)
        if activity is None:  # its end has come meanwhile
            if seq not in self._stay_when_cancelled:  # core has reported another one to the workflow
                self._run.inbox = [each for each in self._run.inbox if not _resolves(each[0], seq)]
            return
        activity.cancel_requested = True
        if not activity.stays_when_cancelled:
            # Core has reported it to the workflow at once; what the worker still does makes no difference.
            activity.end()
            del self._open[seq]
        elif activity.worker is None:
            self._resolve(activity, Cancelled())

    def heartbeat(self, activity: Activity, attempt: int, details: Sequence[Any]) -> bool:
        """Its worker is alive; False if the server has given that attempt up."""
        if activity.over or activity.attempt != attempt:
            return False
        activity.beat_at = self._world.loop.time()
        activity.details = tuple(details)
        return True

    def report(self, activity: Activity, attempt: int, end: ActivityEnd) -> None:
        """How the activity ended in its worker; dropped where the server has given that attempt up."""
        if not activity.over and activity.attempt == attempt:
            failed = isinstance(end, Failed) and not (
                isinstance(end.failure, ApplicationError) and end.failure.non_retryable
            )
            self._ended(activity, end, failed)

    def _wait_for_worker(self, activity: Activity) -> None:
        activity.worker = None
        if limit := activity.call.schedule_to_start_timeout:
            self._limit(activity, limit, TimeoutType.SCHEDULE_TO_START)
        self._hand_out(activity)

    def _limit(self, activity: Activity, limit: timedelta, kind: TimeoutType) -> None:
        timer = self._world.loop.call_later(limit.total_seconds(), self._times_out, activity, kind)
        activity.timers.append(timer)

    def _hand_out(self, activity: Activity) -> None:
        if activity.over or activity.worker is not None:
            return
        loop, queue = self._world.loop, activity.call.task_queue
        if "." in queue:  # the queue of a rate limit
            turns = self._world.temporal.turn_at
            turn = max(turns.get(queue, 0.0), loop.time())
            if turn > loop.time():
                activity.timers.append(loop.call_later(turn - loop.time(), self._hand_out, activity))
                return
            turns[queue] = turn + SECONDS_OF_TURN
        worker = self._world.worker_for(self._run.lifecycle)
        if worker is None:
            activity.timers.append(loop.call_later(1.0, self._hand_out, activity))
            return
        activity.worker = worker
        loop.call_later(DISPATCH, self._start, activity)

    def _start(self, activity: Activity) -> None:
        if activity.over:
            return
        worker, call = activity.worker, activity.call
        assert worker is not None
        if not worker.takes_work:
            activity.worker = None
            self._world.loop.call_later(1.0, self._hand_out, activity)
            return
        activity.stop_timers()
        activity.timers, activity.beat_at = [], self._world.loop.time()
        if call.start_to_close_timeout:
            self._limit(activity, call.start_to_close_timeout, TimeoutType.START_TO_CLOSE)
        if call.heartbeat_timeout:
            self._watch_heartbeat(activity, call.heartbeat_timeout)
        worker.begin_activity(self._run, self, activity)

    def _watch_heartbeat(self, activity: Activity, limit: timedelta) -> None:
        loop = self._world.loop
        if activity.over:
            return
        left = activity.beat_at + limit.total_seconds() - loop.time()
        if left <= 0.001:
            self._times_out(activity, TimeoutType.HEARTBEAT)
        else:
            activity.timers.append(loop.call_later(left, self._watch_heartbeat, activity, limit))

    def _times_out(self, activity: Activity, kind: TimeoutType) -> None:
        if not activity.over:
            self._world.cover("activity timed out", kind.name.lower())
            retried = kind in (TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT)
            self._ended(activity, TimedOut(kind, timedelta(0), activity.details), retried)

    def _ended(self, activity: Activity, end: ActivityEnd, retried: bool) -> None:
        policy = activity.call.retry_policy or RetryPolicy()
        more = policy.maximum_attempts == 0 or activity.attempt < policy.maximum_attempts
        if retried and more and not activity.cancel_requested:
            self._retry(activity, policy)
        else:
            self._resolve(activity, Cancelled() if activity.cancel_requested and retried else end)

    def _retry(self, activity: Activity, policy: RetryPolicy) -> None:
        activity.stop_timers()
        activity.worker = None
        pause = policy.initial_interval.total_seconds() * policy.backoff_coefficient ** (activity.attempt - 1)
        longest = policy.maximum_interval.total_seconds() if policy.maximum_interval else pause
        activity.attempt += 1
        activity.timers = [self._world.loop.call_later(min(pause, longest), self._wait_for_worker, activity)]

    def _resolve(self, activity: Activity, end: ActivityEnd) -> None:
        activity.end()
        self._open.pop(activity.call.seq, None)
        self._add_job(activity_job(activity.call, end), 2)


def _resolves(job: sdk.WorkflowActivationJob, seq: int) -> bool:
    return job.HasField("resolve_activity") and job.resolve_activity.seq == seq
