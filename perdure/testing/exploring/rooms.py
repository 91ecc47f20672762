"""The parts that a world needs: the application's database, and the delivery of its commits to Temporal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from perdure._wire.writes import EffectView, Move, Store
from perdure.contracts.keys import Entity

if TYPE_CHECKING:
    from perdure.testing.exploring.database import Row
    from perdure.testing.exploring.workers import Worker


class OnRecord(Protocol):
    """The data for the judge."""

    def effects(self) -> dict[str, EffectView]: ...

    def snapshot(self, lifecycle: str, entity_id: str) -> Any: ...

    def version(self, entity: Entity) -> int: ...

    keeps_moments: bool

    def lose_records(self) -> None:
        """The records of all attempts are lost, as by a restore."""

    def lose_commits(self, count: int) -> None:
        """The last commits are lost."""


class DatabaseRoom(Protocol):
    """The application's database.

    Attributes:
        rows: what the application committed, by the entities' ids.
        away_until, loses_replies_until, locked_until: until when it fails in that way.
    """

    rows: dict[str, Row]
    away_until: float
    loses_replies_until: float

    @property
    def locked_until(self) -> float: ...

    @locked_until.setter
    def locked_until(self, until: float) -> None: ...

    @property
    def store(self) -> OnRecord: ...

    def connection(self, worker: Worker) -> Store:
        """A store as one worker has it."""

    def moves(self, entity: Entity) -> list[Move]:
        """All that the mirror has shown of an entity."""

    def is_final(self, entity: Entity) -> bool:
        """Whether the mirror shows an end."""


class RelayRoom(Protocol):
    """The application that commits, and the relays that deliver."""

    def start(self, entity: Entity, given: Any) -> None:
        """The application commits a start."""

    def send(self, row: Row, more: str = "") -> None:
        """The application commits a message; `more` is added to its text."""

    async def start_by_step(self, entity: Entity, given: Any) -> None:
        """A step has the application commit a start, and returns after that; a second start changes nothing."""

    async def send_by_step(self, entity_id: str, text: str) -> None:
        """A step has the application commit a message whose id is its text, and returns after that; a second one
        changes nothing."""

    def send_again(self, row: Row) -> None:
        """A message that was delivered is delivered once more."""

    def recover(self) -> None:
        """Open entities without a workflow go on from their record."""
