"""Which ended effects a branch of the author's code may perform again, after a person had one effect sent anew.

All branches that wait for a retry continue then, and each performs its own effect again. Nobody has requested that for
the other effects: each ends once more as it had ended, without a call.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Only:
    """One effect is to be sent anew.

    Attributes:
        slot: the effect.
        repeated: other effects that have ended once more since.
    """

    slot: str
    repeated: set[str] = field(default_factory=set)


_ONLY: ContextVar[_Only | None] = ContextVar("perdure_only", default=None)


def continue_for(slot: str | None) -> None:
    """Note that the present branch continues because a person has this effect sent anew; None = all may be performed
    again."""
    _ONLY.set(None if slot is None else _Only(slot))


def may_go_again(slot: str) -> bool:
    """Whether the present branch may perform an effect again that has ended."""
    only = _ONLY.get()
    return only is None or slot == only.slot or slot in only.repeated


def has_ended_again(slot: str) -> None:
    """Note that the effect has ended once more as it had ended. The author's code may perform it again from now on."""
    if (only := _ONLY.get()) is not None:
        only.repeated.add(slot)
