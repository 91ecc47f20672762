"""What can be asked of a run now; what makes no sense is refused with a sentence why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import NotNow

if TYPE_CHECKING:
    from perdure.workflow.conduct import Conductor
    from perdure.workflow.leaving import Leave
    from perdure.workflow.performing import Performance


def refuse_if_over(conductor: Conductor) -> None:
    """Raise `NotNow` if nothing can be asked of this run any more."""
    if why := closing(conductor):
        raise NotNow(why)


def closing(conductor: Conductor) -> str | None:
    """Why nothing can be asked of this run any more."""
    if conductor.final or conductor.overtaken:
        return f"too late: already {conductor.state}"
    return "it goes on in a new run: ask again in a moment" if conductor.leaving else None


def why_left(conductor: Conductor, reason: Leave) -> str:
    """Why a handler was left, as whoever sent the update reads it."""
    asked = conductor.cancel
    return closing(conductor) or (f"{asked.by} has asked for its end" if asked else f"it can't go on now: {reason}")


def parked(conductor: Conductor, slot: str | None) -> Performance[Any, Any]:
    """The parked effect that `slot` names; the only one, where `slot` is None."""
    there = [each for each in conductor.performances.values() if each.parked]
    chosen = [each for each in there if slot in (None, each.slot, each.key)]
    if len(chosen) == 1:
        return chosen[0]
    if not there:
        raise NotNow(f"nothing is parked in doubt in state {conductor.state!r}")
    raise NotNow(f"effect={slot!r}: say which of {', '.join(each.slot for each in there)}")


def ended(conductor: Conductor, slot: str | None) -> str:
    """Key of the effect that ended without being done, and that `slot` names."""
    chosen = [key for key in conductor.ended if slot in (None, key, conductor.ended[key].slot)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(conductor.ended[key].slot for key in conductor.ended)
    raise NotNow(f"effect={slot!r}: say which of {names}" if names else "no effect has ended without being done")
