"""The entities of an act, as an address or a form names them: one by name, or all that a filter chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from perdure._operations import selection
from perdure._operations.bulk import Choice, Name
from perdure._operations.condition import Condition
from perdure._operations.doubts import Doubt, DoubtSelection, by_entity, count_doubts, next_doubts, select_doubtful
from perdure._operations.durations import duration
from perdure._operations.finished import FinishedSelection, count_finished, select_finished
from perdure._operations.reach import Reach
from perdure._operations.selection import Selection
from perdure._store.schema import Connection
from perdure.console.verbs import Among, InDoubt
from perdure.errors import InvalidSetting

SAMPLE = 20
"""Of how many the preview shows who they are."""
# No page and no act regards another filter than these: an act is for the entities that its page shows.
OPEN_FILTERS = (
    *("lifecycle", "id", "state", "condition", "older_than", "in_doubt", "attention", "undoubted"),
    *("tenant", "finding", "reason"),
)
FINISHED_FILTERS = ("lifecycle", "id", "state", "since", "before", "tenant", "in_doubt")
DOUBT_FILTERS = ("lifecycle", "effect", "why", "state", "ended", "unexplained")
_FILTERS = {Among.OPEN: OPEN_FILTERS, Among.FINISHED: FINISHED_FILTERS, Among.DOUBTFUL: DOUBT_FILTERS}


class Chosen(ABC):
    """Many entities, of which those that join later are none."""

    @abstractmethod
    async def count(self, connection: Connection) -> int:
        """How many there are now."""

    @abstractmethod
    async def page(self, connection: Connection, after: Name | None) -> Sequence[Any]:
        """The next of them, in the order of lifecycle and id."""

    async def sample(self, connection: Connection) -> Sequence[Any]:
        """Some of them, to be shown."""
        return (await self.page(connection, None))[:SAMPLE]

    @abstractmethod
    async def following(self, connection: Connection, after: Name | None) -> Sequence[Choice]:
        """The next of them, for an act."""


@dataclass(frozen=True)
class Open(Chosen):
    """Among what is open."""

    wanted: Selection

    async def count(self, connection: Connection) -> int:
        """See base class."""
        return await selection.count(connection, self.wanted)

    async def page(self, connection: Connection, after: Name | None) -> Sequence[Any]:
        """See base class."""
        return await selection.select(connection, self.wanted, after)

    async def following(self, connection: Connection, after: Name | None) -> Sequence[Choice]:
        """See base class."""
        return await selection.choices(connection, await self.page(connection, after), self.wanted)


@dataclass(frozen=True)
class Finished(Chosen):
    """Among what is finished."""

    wanted: FinishedSelection

    async def count(self, connection: Connection) -> int:
        """See base class."""
        return await count_finished(connection, self.wanted)

    async def page(self, connection: Connection, after: Name | None) -> Sequence[Any]:
        """See base class."""
        return await select_finished(connection, self.wanted, after)

    async def following(self, connection: Connection, after: Name | None) -> Sequence[Choice]:
        """See base class."""
        return [row.choice for row in await self.page(connection, after)]


@dataclass(frozen=True)
class Doubtful(Chosen):
    """Effects in doubt; one entity may have several."""

    wanted: DoubtSelection

    async def count(self, connection: Connection) -> int:
        """See base class: effects, not entities."""
        return await count_doubts(connection, self.wanted)

    async def page(self, connection: Connection, after: Name | None) -> Sequence[Any]:
        """See base class."""
        return await select_doubtful(connection, self.wanted, after)

    async def following(self, connection: Connection, after: Name | None) -> Sequence[Choice]:
        """See base class: each effect in doubt by itself."""
        found = await by_entity(connection, self.wanted, await self.page(connection, after))
        return [
            Choice(name, [InDoubt(each.key, each.attempts, each.effect)])
            for name, doubts in found.items()
            for each in doubts
        ]

    async def sample(self, connection: Connection) -> Sequence[Any]:
        """See base class."""
        return await self.oldest(connection, None, SAMPLE)

    async def oldest(self, connection: Connection, after: tuple[datetime, str] | None, limit: int) -> Sequence[Any]:
        """Those that follow `after`, the oldest first."""
        return await next_doubts(connection, replace(self.wanted, limit=limit), after)


def given(among: Among, fields: Mapping[str, str]) -> dict[str, str]:
    """For whom an act is, without the rest of an address or a form.

    Raises:
        InvalidSetting: it is neither one entity nor a filter.
    """
    found = picked(fields, ("lifecycle", "id", "key") if fields.get("id") else _FILTERS[among])
    if ("id" in found and "lifecycle" not in found) or not found:
        raise InvalidSetting("that names neither one entity nor a filter: begin at the inbox or the list")
    return found


def picked(fields: Mapping[str, str], filters: Sequence[str]) -> dict[str, str]:
    """The filters of an address or a form."""
    return {name: value for name, value in fields.items() if name in filters and value}


def chosen(among: Among, fields: Mapping[str, str], reach: Reach, until: datetime | None) -> Chosen:
    """Those that the filter chooses within reach, and that were there by `until`."""
    if among is Among.FINISHED:
        return Finished(finished_ones(fields, reach, until))
    if among is Among.DOUBTFUL:
        return Doubtful(doubtful_ones(fields, reach, until))
    return Open(open_ones(fields, reach, until))


def in_words(fields: Mapping[str, str]) -> str:
    """A filter in a few words."""
    names = {"why": "reason", "older_than": "older than", "in_doubt": "in doubt", "unexplained": "without a reason"}
    return ", ".join(
        names.get(name, name) if value == "on" else f"{names.get(name, name)} {value}" for name, value in fields.items()
    )


def group_of(doubt: Doubt) -> dict[str, str]:
    """The group of the inbox in which it stands, as the address of that has it."""
    group = {"lifecycle": doubt.lifecycle, "effect": doubt.effect.partition("/")[0]}
    group |= {"why": doubt.why} if doubt.why else {"unexplained": "on"}
    return group | ({"ended": "on"} if doubt.ended else {})


def place_of(doubt: Doubt) -> str:
    """Its place in the group, as the address of a page has it."""
    return f"{doubt.deadline.isoformat()} {doubt.key}"


def open_ones(query: Mapping[str, str], reach: Reach, until: datetime | None = None) -> Selection:
    """The filter of open entities that an address holds.

    Raises:
        InvalidSetting: one of its values can't be used.
    """
    query = picked(query, OPEN_FILTERS)
    condition = query.get("condition")
    if condition is not None and condition not in set(Condition):
        raise InvalidSetting(f"no condition is named {condition!r}; there are: {', '.join(Condition)}")
    older_than = query.get("older_than")
    return Selection(
        lifecycle=query.get("lifecycle"),
        id=query.get("id"),
        state=query.get("state"),
        condition=Condition(condition) if condition else None,
        older_than=duration(older_than) if older_than else None,
        in_doubt="in_doubt" in query,
        attention="attention" in query,
        tenant=query.get("tenant"),
        finding=query.get("finding"),
        reason=query.get("reason"),
        undoubted="undoubted" in query,
        until=until,
        reach=reach,
    )


def finished_ones(query: Mapping[str, str], reach: Reach, until: datetime | None = None) -> FinishedSelection:
    """The filter of finished entities that an address holds, of those that had ended by `until`.

    Raises:
        InvalidSetting: one of its values can't be used.
    """
    query = picked(query, FINISHED_FILTERS)
    ends = [each for each in (instant(query.get("before")), until) if each is not None]
    return FinishedSelection(
        lifecycle=query.get("lifecycle"),
        id=query.get("id"),
        state=query.get("state"),
        since=instant(query.get("since")),
        before=min(ends, default=None),
        tenant=query.get("tenant"),
        in_doubt="in_doubt" in query,
        reach=reach,
    )


def doubtful_ones(query: Mapping[str, str], reach: Reach, until: datetime | None = None) -> DoubtSelection:
    """The filter of effects in doubt that an address holds: those that wait for a person, or whose entity has ended."""
    query = picked(query, DOUBT_FILTERS)
    return DoubtSelection(
        lifecycle=query.get("lifecycle"),
        effect=query.get("effect"),
        state=query.get("state"),
        why="" if query.get("unexplained") else query.get("why"),
        ended="ended" in query,
        waiting="ended" not in query,
        until=until,
        reach=reach,
    )


def instant(text: str | None) -> datetime | None:
    """The time that a person has typed. One without a zone is in UTC, as pages show times.

    Raises:
        InvalidSetting: it is none.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone() if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidSetting(f"{text!r} is no time: write 2026-07-01 or 2026-07-01T12:00Z") from None
