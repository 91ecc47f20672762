"""An act for many entities: each by itself, at a steady rate. What is refused harms none of the others.

They go in the order of lifecycle and id, so whoever is interrupted can go on after the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perdure.contracts.keys import Entity
from perdure.errors import DatabaseUnavailable, NotOnRecord, PerdureError, TemporalUnavailable

AT_ONCE = 16
"""Acts under way at the same time: one waits for a worker most of its time."""
UNANSWERED = 3
"""So many in a row that nobody answers end it: one entity is not the cause."""


class Name(NamedTuple):
    """Of an entity, as it is on record: in the database's order, and maybe one that can't be used."""

    lifecycle: str
    id: str

    @classmethod
    def of(cls, text: str) -> Name:
        """`LIFECYCLE/ID`."""
        lifecycle, _, entity_id = text.partition("/")
        return cls(lifecycle, entity_id)

    @property
    def entity(self) -> Entity:
        """Raises `InvalidEntity` where no worker takes it."""
        return Entity(self.lifecycle, self.id)

    def __str__(self) -> str:
        return f"{self.lifecycle}/{self.id}"


class Seen(NamedTuple):
    """How an entity was when it was chosen.

    Attributes:
        state, attention: None = the choice does not depend on it.
        undone: key and name of each effect that had ended without being done. What is sent again is one of these; None
            = it was not read.
    """

    generation: int
    state: str | None = None
    attention: str | None = None
    undone: Sequence[tuple[str, str]] | None = None


class Choice(NamedTuple):
    """An entity that was chosen for an act.

    Attributes:
        parts: the parts of it that are meant, such as its effects in doubt.
        seen: how it was then; None = the act does not check it.
    """

    name: Name
    parts: Sequence[Any] = ()
    seen: Seen | None = None


@dataclass(slots=True)
class Tally:
    """How far it came.

    Attributes:
        accepted, refused: how many.
        unknown: those that nobody answered: whether they were accepted is not known.
        last: whoever goes on begins after it; None = from the beginning.
        interrupted: whether it was stopped before the end.
        unanswered: why it gave up.
    """

    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    last: Name | None = None
    interrupted: bool = False
    unanswered: PerdureError | None = None

    @property
    def dealt_with(self) -> int:
        """Accepted, refused or without an answer."""
        return self.accepted + self.refused + self.unknown


@dataclass(slots=True)
class Bulk:
    """Does one act for many.

    Attributes:
        act: what is done; a `PerdureError` of it is a refusal.
        rate: how many are begun in a second at most; 0 = no limit.
        stop: once it is set, those under way are the last.
        refused: called with each refusal, and with each that nobody answered or that is not on record.
        progress: called with the tally after each.
    """

    act: Callable[[Choice], Awaitable[str]]
    rate: float
    stop: asyncio.Event
    refused: Callable[[PerdureError], None]
    progress: Callable[[Tally], None]
    _tally: Tally = field(default_factory=Tally)
    _in_a_row: list[Name | None] = field(default_factory=list)
    """For each of those that nobody answered, one after the other: the one before it."""

    async def run(self, choices: AsyncIterator[Choice]) -> Tally:
        """Act on all of them, or until `stop` is set."""
        under_way: set[asyncio.Task[None]] = set()
        tally, began = self._tally, asyncio.get_running_loop().time()
        number = 0
        try:
            async for choice in choices:
                await self._pause(began + number / self.rate if self.rate else began)
                if len(under_way) >= AT_ONCE:
                    under_way = await _some(under_way)
                if self.stop.is_set() or tally.unanswered:
                    tally.interrupted = tally.unanswered is None
                    break
                under_way.add(asyncio.create_task(self._one(choice, tally.last)))
                tally.last, number = choice.name, number + 1
        finally:
            while under_way:
                under_way = await _some(under_way)
        if tally.unanswered:
            tally.last = min(self._in_a_row, key=lambda name: name or ())
        return tally

    async def _one(self, choice: Choice, before: Name | None) -> None:
        tally = self._tally
        try:
            await self.act(choice)
        except (DatabaseUnavailable, TemporalUnavailable) as error:
            tally.unknown += 1
            self.refused(error)
            self._in_a_row.append(before)
            if len(self._in_a_row) >= UNANSWERED:
                tally.unanswered = error
                return
        except NotOnRecord as error:
            tally.accepted += 1
            self.refused(error)
        except PerdureError as error:
            tally.refused += 1
            self.refused(error)
            self._answered()
        else:
            tally.accepted += 1
            self._answered()
        self.progress(tally)

    def _answered(self) -> None:
        if self._tally.unanswered is None:
            self._in_a_row.clear()

    async def _pause(self, until: float) -> None:
        """Wait for its turn, or until `stop` is set."""
        left = until - asyncio.get_running_loop().time()
        if left > 0:
            try:
                await asyncio.wait_for(self.stop.wait(), left)
            except TimeoutError:
                return


async def _some(under_way: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait for the first to end; those that are left. What nobody has thought of is raised, not swallowed."""
    ended, left = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()
    return left
