"""The conditions that an entity's lifecycle can be in, as its operator sees it: who has the next step.

`assess` is a pure function of what was read: of the app's database always, of Temporal where it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from perdure._operations.durations import shown

POLLS = 75.0
"""Seconds without a poll after which a worker counts as gone: one poll lasts 60 s, and a killed worker stays listed for
minutes."""
_NEARLY = 0.9
"""Share of a heartbeat time-out: Temporal's SDK holds heartbeats back for 0.8 of it, so less silence means nothing."""


class Condition(StrEnum):
    """Where the next step of an entity lies."""

    NOT_PICKED_UP = "not-picked-up"
    """Its start, a message or a task is queued, and no worker has taken it."""
    HELD = "held"
    """A worker executes an attempt or a task."""
    HOLDER_GONE = "holder-gone"
    """An attempt or a task began, and its worker no longer sends heartbeats or polls."""
    WAITS = "waits"
    """It waits for a time, a message or a person, as its code intends."""
    FINISHED = "finished"

    @property
    def words(self) -> str:
        """The condition as displayed text."""
        return self.value.replace("-", " ")


@dataclass(frozen=True, slots=True)
class Task:
    """An activity or a workflow task of an entity, pending in Temporal.

    Attributes:
        what: a description such as `charge-card: attempt 2`.
        slot: for an attempt, its effect with the suffix.
        began: when a worker took it; None = it is queued.
        worker: the worker's identity, if known.
        last_heartbeat: time of the last heartbeat.
        silence: the heartbeat time-out in seconds; None = the activity has none.
        until: when Temporal times it out at the latest.
        polled: when that worker last polled; None = not known.
        queue: the task queue.
        build: the build whose workers alone take it; None = any worker does.
        pollers: number of workers that poll the task queue and may take it; None = that was not read.
        tries: how often Temporal has dispatched it.
    """

    what: str
    since: datetime
    slot: str | None = None
    began: datetime | None = None
    worker: str | None = None
    last_heartbeat: datetime | None = None
    silence: float | None = None
    until: datetime | None = None
    polled: datetime | None = None
    queue: str = ""
    build: str | None = None
    pollers: int | None = None
    tries: int = 1


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """The state of an entity's workflow in Temporal.

    Attributes:
        open: whether the workflow is open.
        status: `running`, `terminated`, ..., `absent`.
        timers: the pending timers: description and due time.
    """

    open: bool
    status: str
    tasks: Sequence[Task] = ()
    timers: Sequence[tuple[str, datetime]] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt in the fence without a recorded outcome."""

    slot: str
    number: int
    began: datetime
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about an entity, as read from PostgreSQL and Temporal.

    Attributes:
        now: by the database's clock.
        final: the final state of a finished entity.
        starts: since when its start has been waiting for the relay.
        problem: why the relay has not delivered it yet.
        later: the start time that the app has set.
        rejected: why its start or a message could not be delivered.
        undelivered_since: since when a message has been waiting for the relay.
        workflow: None = Temporal was not asked, or did not answer.
        doubts: by effect, the next step after an attempt is lost.
    """

    now: datetime
    final: str | None = None
    attention: str | None = None
    starts: datetime | None = None
    problem: str | None = None
    later: datetime | None = None
    rejected: str | None = None
    undelivered_since: datetime | None = None
    attempts: Sequence[Attempt] = ()
    workflow: WorkflowView | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)

    def ago(self, then: datetime) -> str:
        """The time since `then`, as displayed text."""
        return shown((self.now - then).total_seconds())


@dataclass(frozen=True, slots=True)
class Assessment:
    """A condition, and what it means for this entity, in a sentence."""

    condition: Condition
    sentence: str


def assess(facts: Facts) -> Assessment:
    """Assess the facts: the first rule that applies gives the condition."""
    rules: list[Callable[[Facts], Assessment | None]]
    rules = [_finished, _starting, _closed, _running, _queued, _on_record, _message_waits]
    return next(found for rule in [*rules, _waiting] if (found := rule(facts)) is not None)


def _finished(facts: Facts) -> Assessment | None:
    return None if facts.final is None else Assessment(Condition.FINISHED, f"it ended as {facts.final}")


def _starting(facts: Facts) -> Assessment | None:
    if facts.later is not None and facts.later > facts.now:
        return Assessment(Condition.WAITS, f"it is to be started at {_at(facts.later, facts.now)}")
    if facts.starts is None:
        return None
    why = f": {facts.problem}" if facts.problem else ""
    return Assessment(Condition.NOT_PICKED_UP, f"its start waits for a relay, for {facts.ago(facts.starts)}{why}")


def _closed(facts: Facts) -> Assessment | None:
    if facts.workflow is None or facts.workflow.open:
        return None
    if facts.rejected is not None:
        return Assessment(Condition.WAITS, f"it waits for a person: rejected: {facts.rejected}")
    if facts.attention is not None:
        return Assessment(Condition.WAITS, f"it waits for a person: {facts.attention} ({_gone(facts.workflow)})")
    return Assessment(Condition.HOLDER_GONE, f"{_gone(facts.workflow)}: `perdure retry` brings it back")


def _running(facts: Facts) -> Assessment | None:
    tasks = [task for task in facts.workflow.tasks if task.began is not None] if facts.workflow else []
    if not tasks:
        return None
    task = max(tasks, key=lambda each: each.slot is not None)
    assert task.began is not None
    what, worker = _words(task, facts), f" at {task.worker}" if task.worker else ""
    if not _is_gone(task, facts):
        beats = f", last heartbeat {facts.ago(task.last_heartbeat)} ago" if task.last_heartbeat else ""
        beats = beats or (", no heartbeat yet" if task.silence else "")
        return Assessment(Condition.HELD, f"{what} runs{worker} for {facts.ago(task.began)}{beats}")
    signs = (task.last_heartbeat, task.polled if task.silence is None else None, task.began)
    last = max(each for each in signs if each)
    waits = f"; Temporal waits until {_at(task.until, facts.now)}, then {_then(task.slot, facts)}" if task.until else ""
    sentence = (
        f"{what} began{worker} {facts.ago(task.began)} ago, and its last sign of life was {facts.ago(last)} ago{waits}"
    )
    return Assessment(Condition.HOLDER_GONE, sentence)


def _words(task: Task, facts: Facts) -> str:
    """What it is: also the effect that a workflow task runs in itself."""
    inline = next((each for each in facts.attempts if task.slot is None and task.began is not None), None)
    return f"{task.what} with {inline.slot}: attempt {inline.number}" if inline else task.what


def _is_gone(task: Task, facts: Facts) -> bool:
    assert task.began is not None
    if task.silence is not None:  # heartbeats count, because a worker without a free slot does not poll
        return (facts.now - (task.last_heartbeat or task.began)).total_seconds() > _NEARLY * task.silence
    if any(each.deadline < facts.now for each in facts.attempts):  # inline, and its call can't be under way any more
        return True
    return task.polled is not None and (facts.now - task.polled).total_seconds() > POLLS


def _queued(facts: Facts) -> Assessment | None:
    if facts.workflow is None or not facts.workflow.tasks:
        return None
    task = facts.workflow.tasks[0]
    worker = f"a worker of build {task.build}" if task.build else "a worker"
    nobody = f", and {'none' if task.build else 'no worker'} polls {task.queue}" if task.pollers == 0 else ""
    again = f", for the {task.tries}th time" if task.tries > 3 else ""
    sentence = f"{task.what} waits for {worker}{again}, for {facts.ago(task.since)}{nobody}"
    return Assessment(Condition.NOT_PICKED_UP, sentence)


def _on_record(facts: Facts) -> Assessment | None:
    if not facts.attempts:
        return None
    last = max(facts.attempts, key=lambda each: each.deadline)
    what = f"{last.slot}: attempt {last.number}"
    if last.deadline >= facts.now:
        return Assessment(
            Condition.HELD,
            f"{what} is on record for {facts.ago(last.began)}, and ends by {_at(last.deadline, facts.now)}",
        )
    timers = [at for _, at in facts.workflow.timers] if facts.workflow else []
    waits = (
        f"; the workflow waits until {_at(min(timers), facts.now)}, then {_then(last.slot, facts)}" if timers else ""
    )
    sentence = f"{what} should have ended {facts.ago(last.deadline)} ago, and has reported no result{waits}"
    return Assessment(Condition.HOLDER_GONE, sentence)


def _message_waits(facts: Facts) -> Assessment | None:
    if facts.undelivered_since is None:
        return None
    return Assessment(Condition.NOT_PICKED_UP, f"a message waits for a relay, for {facts.ago(facts.undelivered_since)}")


def _waiting(facts: Facts) -> Assessment:
    if facts.attention is not None:
        return Assessment(Condition.WAITS, f"it waits for a person: {facts.attention}")
    if facts.workflow is None:
        return Assessment(Condition.WAITS, "it waits for a time, a message or a worker; Temporal's record shows which")
    if facts.workflow.timers:
        what, at = min(facts.workflow.timers, key=lambda each: each[1])
        return Assessment(Condition.WAITS, f"it waits until {_at(at, facts.now)}" + (f" ({what})" if what else ""))
    return Assessment(Condition.WAITS, "it waits for a message")


def _then(slot: str | None, facts: Facts) -> str:
    if slot is None:
        attempt = facts.attempts[0].slot if facts.attempts else None
        follows = facts.doubts.get(attempt.partition("/")[0]) if attempt else None
        return "another worker goes on" + (f"; {attempt}: {follows}" if follows else "")
    return facts.doubts.get(
        slot.partition("/")[0], "its doubt policy decides what follows (--app lets this command read it)"
    )


def _gone(workflow: WorkflowView) -> str:
    return "Temporal has no workflow of it" if workflow.status == "absent" else f"its workflow is {workflow.status}"


def _at(when: datetime, now: datetime) -> str:
    utc = when.astimezone(UTC)
    return f"{utc:%H:%M:%S} UTC" if abs(when - now) < timedelta(hours=12) else f"{utc:%Y-%m-%d %H:%M} UTC"
