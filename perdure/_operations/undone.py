"""The effects of an entity that ended without being done: what a person may have sent again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from perdure.contracts.keys import Key
from perdure.contracts.outcomes import EffectStatus

UNDONE = (EffectStatus.NOT_DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED)


class Recorded(Protocol):
    """The record of an effect."""

    @property
    def key(self) -> str: ...
    @property
    def status(self) -> str: ...


R = TypeVar("R", bound=Recorded)


def undone(effects: Iterable[R]) -> list[R]:
    """Those that ended without being done, of one generation. An effect that was sent again counts under its newest key
    alone."""
    newest: dict[tuple[str, str | None], tuple[int, R]] = {}
    for each in effects:
        effect, suffix, again = Key(each.key).performance
        if again >= newest.get((effect, suffix), (0, each))[0]:
            newest[effect, suffix] = again, each
    return [each for _, each in newest.values() if each.status in UNDONE]
