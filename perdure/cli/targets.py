"""The arguments that choose the entities of an act: one by its name, or all that a filter selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import typer

from perdure._operations import selection
from perdure._operations.bulk import Choice, Name
from perdure._operations.condition import Condition
from perdure._operations.doubts import Doubt, DoubtSelection, by_entity, count_doubtful, select_doubtful
from perdure._operations.durations import duration
from perdure._operations.finished import FinishedRow, FinishedSelection, count_finished, select_finished
from perdure._operations.selection import Row, Selection
from perdure._store.schema import Connection
from perdure._text.shown import one_line
from perdure._wire.requests import OperatorRequest
from perdure.app import App
from perdure.cli.app_option import AppOption
from perdure.cli.printing import MOST, refuse, refuse_error
from perdure.cli.who import By, Note, request
from perdure.errors import InvalidSetting

_FILTER, _MANY = "For many", "With a filter"


def _filter(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_FILTER, show_default=False)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What all acts take."""

    of: Annotated[
        str | None, typer.Argument(metavar="LIFECYCLE", help="with ID: the one entity", show_default=False)
    ] = None
    entity_id: Annotated[str | None, typer.Argument(metavar="ID", help="its id", show_default=False)] = None
    by: By = ""
    note: Note = ""
    app: AppOption = None
    timeout: Annotated[float, typer.Option(help="seconds that a workflow's answer is waited for", min=0.1, max=600)] = (
        20
    )
    lifecycle: Annotated[str | None, _filter("those of this lifecycle")] = None
    state: Annotated[str | None, _filter("those in this state")] = None
    tenant: Annotated[str | None, _filter("those of this tenant")] = None
    limit: Annotated[int | None, typer.Option(help="at most so many", min=1, max=MOST, rich_help_panel=_FILTER)] = None
    yes: Annotated[bool, typer.Option("--yes", help="do not ask for confirmation", rich_help_panel=_MANY)] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list them, do nothing", rich_help_panel=_MANY)] = False
    rate: Annotated[
        float, typer.Option(help="so many a second at most; 0 = no limit", min=0, rich_help_panel=_MANY)
    ] = 50
    resume_after: Annotated[
        str | None,
        typer.Option(
            metavar="LIFECYCLE/ID", help="go on after this one, as an interrupted run printed", rich_help_panel=_MANY
        ),
    ] = None

    @property
    def asked(self) -> OperatorRequest:
        """Who, and why.

        Leaves with 2 where they can't be used.
        """
        return request(self.by, self.note)

    def check(self) -> None:
        """Make sure that it is one entity, or a filter; leaves with 2 where it is neither, or both."""
        filters = [f"--{each.name.replace('_', '-')}" for each in fields(self) if self._given(each.name)]
        if self.of is not None and self.entity_id is None:
            refuse(f"the ID is missing: give {self.of} and an ID; for many: --lifecycle {self.of}", 2)
        if self.of is not None and filters:
            refuse(f"give LIFECYCLE and ID, or a filter, not both: {', '.join(filters)}", 2)
        try:
            chosen = self._filters()
        except InvalidSetting as error:
            refuse_error(error)
        if self.of is None and not chosen:
            refuse("give LIFECYCLE and ID, or a filter such as --lifecycle", 2)
        if self.resume_after is not None and not all(Name.of(self.resume_after)):
            refuse(f"--resume-after {self.resume_after!r}: write LIFECYCLE/ID, as an interrupted run printed it", 2)
        _ = self.asked

    async def check_names(self, connection: Connection, app: App | None) -> None:
        """Make sure that lifecycle and state are names of something; raises `InvalidSetting`."""
        await selection.check(connection, Selection(lifecycle=self.lifecycle, state=self.state), app)

    async def count(self, connection: Connection, after: Name | None, until: datetime) -> int:
        """How many match, of those that matched by `until`."""
        raise NotImplementedError

    async def page(
        self, connection: Connection, after: Name | None, limit: int | None, until: datetime
    ) -> Sequence[Any]:
        """The next of them, in the order of lifecycle and id."""
        raise NotImplementedError

    async def choices(self, connection: Connection, page: Sequence[Any], until: datetime) -> Sequence[Choice]:
        """Those of a page, for an act."""
        raise NotImplementedError

    def shown(self, row: Any) -> str:
        """One of them in a line."""
        raise NotImplementedError

    def _filters(self) -> bool:
        raise NotImplementedError

    def _given(self, name: str) -> bool:
        about_one = ("of", "entity_id", "by", "note", "app", "timeout", "rate")
        return name not in about_one and bool(getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class OpenTargets(Targets):
    """Among those that are open."""

    condition: Annotated[Condition | None, _filter("those in this condition")] = None
    older_than: Annotated[str | None, _filter("longer in their state than that: 90s, 10m, 2h, 3d")] = None
    in_doubt: Annotated[bool, _filter("those with an effect in doubt", "--in-doubt")] = False
    attention: Annotated[bool, _filter("those that need a person", "--attention")] = False
    stuck: Annotated[bool, _filter("those longer in their state than it allows", "--stuck")] = False
    finding: Annotated[
        str | None, _filter("those about which a reconciliation left this finding, such as ended or stuck")
    ] = None

    async def check_names(self, connection: Connection, app: App | None) -> None:
        """See base class."""
        await selection.check(connection, self._selection(None), app)

    async def count(self, connection: Connection, after: Name | None, until: datetime) -> int:
        """See base class."""
        return await selection.count(connection, self._selection(self.limit, until), after)

    async def page(
        self, connection: Connection, after: Name | None, limit: int | None, until: datetime
    ) -> Sequence[Row]:
        """See base class."""
        return await selection.select(connection, self._selection(limit, until), after)

    async def choices(self, connection: Connection, page: Sequence[Row], until: datetime) -> Sequence[Choice]:
        """See base class."""
        return await selection.choices(connection, page, self._selection(None))

    def shown(self, row: Row) -> str:
        """See base class."""
        return "  ".join(
            [f"{row.lifecycle}/{row.id}", row.state, f"{row.since:%Y-%m-%d %H:%M:%S %Z}", one_line(row.attention or "")]
        )

    def _filters(self) -> bool:
        return self._selection(None).filters

    def _selection(self, limit: int | None, until: datetime | None = None) -> Selection:
        return Selection(
            lifecycle=self.lifecycle,
            state=self.state,
            condition=self.condition,
            older_than=duration(self.older_than) if self.older_than is not None else None,
            in_doubt=self.in_doubt,
            attention=self.attention,
            tenant=self.tenant,
            finding=self.finding,
            limit=limit,
            stuck=self.stuck,
            until=until,
        )


class InDoubt(NamedTuple):
    """An effect in doubt of an entity that was chosen.

    Attributes:
        attempt: the number of the last attempt.
        began_later: whether that began after the command had counted.
    """

    key: str
    effect: str
    attempt: int
    began_later: bool


@dataclass(frozen=True, kw_only=True)
class DoubtfulTargets(OpenTargets):
    """Among those that are open, or those that ended with a doubt open."""

    ended: Annotated[
        bool, _filter("those that ended with a doubt open, as `perdure doubts --ended` lists them", "--ended")
    ] = False

    def check(self) -> None:
        """See base class."""
        super().check()
        of_open_ones = (self.condition, self.older_than, self.in_doubt, self.attention, self.stuck, self.finding)
        if self.ended and any((*of_open_ones, self.tenant)):
            refuse("beside --ended the filters are --lifecycle, --state and --limit", 2)

    async def count(self, connection: Connection, after: Name | None, until: datetime) -> int:
        """See base class."""
        if self.ended:
            return await count_doubtful(connection, self._doubts(self.limit), after)
        return await super().count(connection, after, until)

    async def page(
        self, connection: Connection, after: Name | None, limit: int | None, until: datetime
    ) -> Sequence[Any]:
        """See base class."""
        if self.ended:
            return await select_doubtful(connection, self._doubts(limit), after)
        return await super().page(connection, after, limit, until)

    async def choices(self, connection: Connection, page: Sequence[Any], until: datetime) -> Sequence[Choice]:
        """See base class: with the effects in doubt."""
        found = await by_entity(connection, DoubtSelection(ended=self.ended), page)
        now = await connection.fetchval("select clock_timestamp()")

        def part(doubt: Doubt) -> InDoubt:
            began_later = until < doubt.since <= now  # a time in the future is one of before the clock went back
            return InDoubt(doubt.key, doubt.effect, doubt.attempts, began_later)

        return [Choice(name, [*map(part, each)]) for name, each in found.items()]

    def shown(self, row: Any) -> str:
        """See base class."""
        if self.ended:
            return "  ".join([f"{row.lifecycle}/{row.id}", f"{row.state}; outcome unknown", row.effect, row.key])
        return super().shown(row)

    def _filters(self) -> bool:
        return self.ended or super()._filters()

    def _doubts(self, limit: int | None) -> DoubtSelection:
        return DoubtSelection(lifecycle=self.lifecycle, ended=True, state=self.state, limit=limit)


@dataclass(frozen=True, kw_only=True)
class FinishedTargets(Targets):
    """Among those that are finished."""

    since: Annotated[str | None, _filter("finished then or later: 2026-07-01, 2026-07-01T12:00Z, or 2h = ago")] = None
    before: Annotated[str | None, _filter("finished before then")] = None

    async def count(self, connection: Connection, after: Name | None, until: datetime) -> int:
        """See base class."""
        return await count_finished(connection, self._selection(self.limit, until), after)

    async def page(
        self, connection: Connection, after: Name | None, limit: int | None, until: datetime
    ) -> Sequence[FinishedRow]:
        """See base class."""
        return await select_finished(connection, self._selection(limit, until), after)

    async def choices(self, connection: Connection, page: Sequence[FinishedRow], until: datetime) -> Sequence[Choice]:
        """See base class."""
        return [row.choice for row in page]

    def shown(self, row: FinishedRow) -> str:
        """See base class."""
        return "  ".join([f"{row.lifecycle}/{row.id}", row.state, f"{row.finished_at:%Y-%m-%d %H:%M:%S %Z}"])

    def _filters(self) -> bool:
        return self._selection(None).filters

    def _selection(self, limit: int | None, until: datetime | None = None) -> FinishedSelection:
        return FinishedSelection(
            lifecycle=self.lifecycle,
            state=self.state,
            since=instant(self.since),
            before=instant(self.before),
            tenant=self.tenant,
            limit=limit,
            until=until,
        )


def instant(text: str | None) -> datetime | None:
    """A time, in this machine's zone where it names none; or so long ago.

    Raises:
        InvalidSetting: it is neither.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        ago = duration(text)
    except InvalidSetting:
        why = f"{text!r} is no time: write 2026-07-01, 2026-07-01T12:00Z, or 2h for two hours ago"
        raise InvalidSetting(why) from None
    return datetime.now().astimezone() - ago
