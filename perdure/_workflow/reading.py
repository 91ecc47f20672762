"""Reads recorded data with today's code. If the code cannot read it, the entity stands still, and needs a person.

Later code may read the data, and replays the steps of this code. So a marker in the history shows where a run stood
still, and another marker shows where it continued.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow

from perdure._workflow.leaving import Cancelled, Leave, until
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.waiter import Waiter
from perdure.contracts.effects import first_problem
from perdure.errors import DeclarationError, UnreadableRecord

T = TypeVar("T")

LOOKS_AGAIN = timedelta(seconds=10), timedelta(hours=1)
"""The first and the longest pause of a run that stands still, before it tries to read the record again."""
LOOK = "looks again whether"
"""In the summary of the timers of these pauses. Only another code, or a person, makes such a look succeed."""


class Unreadable(Leave):
    """Today's code cannot read the record; the history shows that too."""

    rank = 2

    def __init__(self, what: str, why: str, reading: Callable[[], object]) -> None:
        super().__init__(what)
        self.attention = f"{what} can't be read: {why}"
        self.what = what
        self.reading = reading


def read(run: RunState, what: str, reading: Callable[[], T]) -> T:
    """Return the result of `reading`.

    Raises:
        Unreadable: the data cannot be read, or could not when this run came here first.
        UnreadableRecord: an earlier version of the code has read the data, and this one cannot.
    """
    value, why = _try(reading)
    if value is not None and not workflow.unsafe.is_replaying():
        return value[0]
    # On replay: whether the run stood still here. The first time: records that it does.
    if workflow.patched(f"perdure: {what} can't be read ({run.standstill.times})"):
        raise Unreadable(what, why or "by the code that came here first", reading)
    if value is not None:
        return value[0]
    raise UnreadableRecord(
        f"{workflow.info().workflow_id}: {what} was read by an earlier version of this code, today's can't read it: "
        f"{why}. Deploy one that can: give new fields a default, or upcast in a validator with mode='before'"
    )


async def stand_still(run: RunState, recorder: Recorder, waiter: Waiter, unreadable: Unreadable) -> None:
    """Stand still, and show that a person or a deploy is needed, until the code can read the record.

    Raises:
        Cancelled: the end was requested.
        Overtaken: the entity is over in the database.
    """
    standstill = run.standstill
    standstill.begin(unreadable.attention)
    await recorder.move_here(unreadable.attention)
    pause, longest = LOOKS_AGAIN
    looks = 0
    while not _reads(unreadable, f"perdure: {unreadable.what} is read again ({standstill.times}.{looks})"):
        recorder.describe()
        standstill.has_looked()
        looks += 1
        if not await until(
            lambda: standstill.looks or run.requests.ending or waiter.over is not None,
            pause.total_seconds(),
            f"{LOOK} it can be read",
        ):
            pause = min(2 * pause, longest)
        if waiter.over is not None:
            raise waiter.over
        if run.requests.ending:
            standstill.give_up()
            raise Cancelled
    standstill.readable()
    await recorder.move_here(f"{unreadable.what} is read again")
    standstill.end()


def _reads(unreadable: Unreadable, mark: str) -> bool:
    """Whether the code of this worker can read the record; on replay, whether the code of that time could."""
    can = workflow.unsafe.is_replaying() or _try(unreadable.reading)[0] is not None
    return can and workflow.patched(mark)


def _try(reading: Callable[[], T]) -> tuple[tuple[T] | None, str | None]:
    try:
        return (reading(),), None
    except (ValueError, TypeError, DeclarationError) as error:
        return None, first_problem(error)
