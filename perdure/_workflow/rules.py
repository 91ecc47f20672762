"""The requests that a run accepts now. Others are refused with a reason."""

from __future__ import annotations

from perdure._wire.requests import NotParked, TakenOver
from perdure._workflow.leaving import Leave
from perdure._workflow.ledger import Performing
from perdure._workflow.run_state import RunState
from perdure.errors import NotNow


def refuse(run: RunState) -> None:
    """Raise `NotNow` if this run accepts no request now."""
    if run.apart.refuses:
        raise TakenOver("a worker was lost, and another one has just taken the run over: try again in a moment")
    if why := closing(run):
        raise NotNow(why)


def closing(run: RunState) -> str | None:
    """Why this run accepts no requests any more; None if it does."""
    if run.final or run.overtaken:
        return f"too late: already {run.state}"
    # A handler that waits for a person holds up the new run.
    return "it continues in a new run: try again in a moment" if run.leaving and not run.waits else None


def why_left(run: RunState, reason: Leave) -> str:
    """Why a handler was left, for the sender of the update."""
    asked = run.requests.cancel
    return closing(run) or (f"{asked.by} has requested its end" if asked else f"it can't go on now: {reason}")


def parked(run: RunState, slot: str | None) -> Performing:
    """The parked effect that `slot` names; the only one, if `slot` is None."""
    there = [each for each in run.effects.performances.values() if each.parked]
    chosen = [each for each in there if run.effects.means(slot, each.key)]
    if len(chosen) == 1:
        return chosen[0]
    if not there:
        raise NotParked(f"nothing is parked in doubt in state {run.state!r}")
    why = f"effect={slot!r}: name one of {', '.join(each.slot for each in there)}"
    raise NotNow(why) if chosen else NotParked(why)


def ended(run: RunState, slot: str | None) -> str:
    """Key of the effect that `slot` names and that ended without being done."""
    chosen = [key for key in run.effects.ended if run.effects.means(slot, key)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(run.effects.ended[key].slot for key in run.effects.ended)
    raise NotNow(f"effect={slot!r}: name one of {names}" if names else "no effect has ended without being done")
