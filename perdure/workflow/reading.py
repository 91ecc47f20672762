"""Reading what is on record with today's code; what that can't read makes the entity stand still and say so.

Code that comes later may be able to read it, and replays what this code did. So the history says by a marker where a
run stood still, and by another one where it went on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from temporalio import workflow

from perdure.contracts.effects import problem
from perdure.errors import DeclarationError, UnreadableRecord
from perdure.workflow.leaving import Cancelled, Leave, until

if TYPE_CHECKING:
    from perdure.workflow.conduct import Conductor

T = TypeVar("T")

LOOKS_AGAIN = timedelta(seconds=10), timedelta(hours=1)
"""The first and the longest pause after which a run that stands still looks whether its code can read it now."""


class Unreadable(Leave):
    """Today's code can't read something that is on record; the history says so too."""

    rank = 2

    def __init__(self, what: str, why: str, reading: Callable[[], object]) -> None:
        super().__init__(what)
        self.attention = f"{what} can't be read: {why}"
        self.what = what
        self.reading = reading


def read(conductor: Conductor, what: str, reading: Callable[[], T]) -> T:
    """What `reading` returns.

    Raises:
        Unreadable: it can't be read, or could not when this run came here first.
        UnreadableRecord: an earlier version of the code has read it, and went on; this one can't follow.
    """
    value, why = _trouble(reading)
    if value is not None and not workflow.unsafe.is_replaying():
        return value[0]
    # On replay: whether it stood still here then. For the first time: puts that on record.
    if workflow.patched(f"perdure: {what} can't be read ({conductor.stood})"):
        raise Unreadable(what, why or "by the code that came here first", reading)
    if value is not None:
        return value[0]
    raise UnreadableRecord(
        f"{workflow.info().workflow_id}: {what} was read by an earlier version of this code, today's can't read it: "
        f"{why}. Deploy one that can: give new fields a default, or upcast in a validator with mode='before'"
    )


async def stand_still(conductor: Conductor, trouble: Unreadable) -> None:
    """Want a person, or another deploy, until the code can read it.

    Raises:
        Cancelled: somebody asked for the end.
        Overtaken: the database says that it is over.
    """
    conductor.unread, conductor.stands = trouble.attention, True
    conductor.ask_for_clean_up("it stands still")
    await conductor.write(conductor.order(move=conductor.move_to(conductor.state, trouble.attention)))
    pause, longest = LOOKS_AGAIN
    looks = 0
    while not _reads(trouble, f"perdure: {trouble.what} is read again ({conductor.stood}.{looks})"):
        conductor.describe()
        conductor.look, looks = False, looks + 1
        if not await until(
            lambda: conductor.look or conductor.cancel is not None or conductor.over is not None,
            pause.total_seconds(),
            "looks again whether it can be read",
        ):
            pause = min(2 * pause, longest)
        if conductor.over is not None:
            raise conductor.over
        if conductor.cancel is not None:
            conductor.unread, conductor.stands = None, False
            raise Cancelled
    conductor.unread = None
    await conductor.write(conductor.order(move=conductor.move_to(conductor.state, f"{trouble.what} is read again")))
    conductor.stands, conductor.stood = False, conductor.stood + 1


def _reads(trouble: Unreadable, mark: str) -> bool:
    """Whether the code of this worker can read it; on replay, whether that time's could."""
    can = workflow.unsafe.is_replaying() or _trouble(trouble.reading)[0] is not None
    return can and workflow.patched(mark)


def _trouble(reading: Callable[[], T]) -> tuple[tuple[T] | None, str | None]:
    try:
        return (reading(),), None
    except (ValueError, TypeError, DeclarationError) as error:
        return None, problem(error)
