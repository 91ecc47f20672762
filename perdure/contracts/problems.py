"""What a check of an application reports to `perdure doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps an application from its work.

    Args:
        what: what is wrong, with the value, in one line.
        mend: the command that mends it, or what to change; '' = that is not known.
        serious: whether it can't work so; else it is only advised against.

    Example:
        >>> Problem("/etc/shop/card.key can't be read", "adduser shop keys").serious
        True
    """

    what: str
    mend: str
    serious: bool = True


ApplicationCheck: TypeAlias = Callable[[], Iterable[Problem]]
"""Gives what is wrong on the machine that it is called on; none if nothing is."""
