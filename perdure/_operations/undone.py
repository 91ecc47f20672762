"""The effects of an entity that ended without being done: what a person may have sent again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from perdure._operations.bulk import Name
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import NotNow

query = queries(__name__)

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


@dataclass(frozen=True, slots=True)
class _Effect:
    key: str
    effect: str
    status: str


async def read_undone(connection: Connection, names: Sequence[Name]) -> dict[Name, list[tuple[str, str]]]:
    """Key and name of those of some open entities."""
    found: dict[Name, list[_Effect]] = {each: [] for each in names}
    ids = [each.lifecycle for each in names], [each.id for each in names]
    for lifecycle, entity_id, *effect in await connection.fetch(query("effects_of_some"), *ids):
        found[Name(lifecycle, entity_id)].append(_Effect(*effect))
    return {name: [(each.key, each.effect) for each in undone(effects)] for name, effects in found.items()}


def to_send_again(entity: Entity, chosen: Sequence[tuple[str, str]], effect: str | None) -> str:
    """The key, or else the name, of the effect that a person means.

    Args:
        chosen: key and name of each that had ended without being done when the entity was chosen.
        effect: its name or key; None = the only one.

    Raises:
        NotNow: there was none, or more than one.
    """
    named = [key for key, name in chosen if effect in (None, key, name)]
    if len(named) == 1:
        return named[0]
    if effect is not None:
        return effect  # the workflow knows former names
    if not chosen:
        raise NotNow(f"{entity}: no effect had ended without being done when it was chosen")
    raise NotNow(f"{entity}: several effects ended without being done: name one of {', '.join(n for _, n in chosen)}")
