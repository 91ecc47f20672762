"""Named places at which a test may let the process die, or its connections break: see `perdure.testing`.

No setting, environment variable or message switches them on: a process has to import `perdure.testing.crashing`
and hand its own function to `inject`, before it runs a worker. Otherwise a place costs one comparison.

A setting could be left behind in production, and no proxy can act between the reply of a commit and the call after it.
"""

from __future__ import annotations

from collections.abc import Callable

Reached = Callable[[str], None]
"""Called with the name of each place that is reached, in the thread that reaches it."""

_reached: Reached | None = None


def point(place: str, subject: object = "") -> None:
    """The process is here: `place`, as `before the call of`, and what it is about."""
    if _reached is not None:
        _reached(f"{place} {subject}".rstrip())


def inject(reached: Reached | None) -> None:
    """Have `reached` called at every place from now on; None = no more."""
    global _reached
    _reached = reached
