"""Plays a history step by step and judges after each: also inside an export or a drop, or after one was cut off."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import asyncpg

from perdure._retention.dropping import check_droppable, drop, tidy
from perdure._retention.exporting import export
from perdure._retention.forgetting import find_archives
from perdure._retention.months import every_month, the_month
from perdure._retention.working import working
from perdure._store.schema import Connection as AnyConnection
from perdure.contracts.keys import Entity
from perdure.errors import NotNow
from tests.ages.calendar import MONTHS, emptied, month, moved_back
from tests.ages.judging import Record, all_rows, archived, mentions, on_record
from tests.ages.steps import NothingToDo, People, Step
from tests.integration.retention.months import Connection

_VERBS = ("execute", "fetch", "fetchrow", "fetchval")
_ONLY_THEIRS = ("ident", "entity", "message", "outbox")
"""Tables that neither export nor drop may touch, and how their rows begin as text."""


class CutOff(BaseException):
    """Somebody has stopped the command, as SIGKILL or a lost connection would."""


class Watched:
    """A connection of the archive; before one of its statements something happens."""

    def __init__(self, connection: AnyConnection, number: int | None, then: Callable[[], Awaitable[None]]) -> None:
        self._connection, self._left, self._then = connection, number, then

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in _VERBS:
            return found

        async def run(sql: str, *given: Any, **more: Any) -> Any:
            if self._left is not None and not sql.startswith("set local"):
                self._left -= 1
                if self._left < 0:
                    self._left = None
                    await self._then()
            return await found(sql, *given, **more)

        return run


@dataclass(slots=True)
class Play:
    """One history on a database of its own.

    Attributes:
        now: number of the month that it has reached.
        done: how often each step was done.
        refused: how often it was not.
    """

    dsn: str
    db: Connection
    folder: Path
    people: People
    began: object
    now: int = 0
    record: Record = field(default_factory=Record)
    done: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    @classmethod
    async def of(cls, steps: list[Step], dsn: str, db: Connection) -> Play:
        """Play a history from an empty database.

        Raises:
            AssertionError: something is lost, or has changed, or was not forgotten; with what, and after which step.
        """
        await emptied(db)
        folder = Path(tempfile.mkdtemp(prefix="perdure-ages-"))
        play = cls(dsn, db, folder, People(db), await db.fetchval("select clock_timestamp()"))
        try:
            for step in [*steps, ["tidy"]]:
                try:
                    await play._take(step)
                except AssertionError as wrong:
                    raise AssertionError(f"after {step}: {wrong}") from wrong
        finally:
            shutil.rmtree(folder)
        return play

    async def _take(self, step: Step) -> None:
        match step:
            case ["month"]:
                self.now = min(self.now + 1, MONTHS - 1)
            case ["late", inner]:
                await self._act(inner, max(self.now - 1, 0))
            case ["export" | "drop" | "tidy", *_]:
                await self._archive(step)
            case _:
                await self._act(step, self.now)

    async def _act(self, step: Step, written_in: int) -> None:
        """A step of somebody else's; one that is refused changes nothing."""
        before = await all_rows(self.db)
        refusal: asyncpg.PostgresError | None = None
        try:
            await self.people.do(step)
        except NothingToDo:
            return
        except asyncpg.PostgresError as error:
            refusal = error
        if refusal is not None:
            assert refusal.sqlstate not in ("55P03", "57014"), f"the archive keeps it waiting: {refusal}"
            assert getattr(refusal, "hint", None), f"refused without a way out: {refusal!r}"
            assert await all_rows(self.db) == before, f"refused ({refusal}), and it changed something"
            self._count(self.refused, step)
            return
        if step[0] == "forget":
            self.record.forget(step[1])
        try:
            await moved_back(self.db, written_in, self.began)
        except asyncpg.CheckViolationError:  # that month is being dropped
            await moved_back(self.db, self.now, self.began)
        self.record.add(await on_record(self.db))
        self._count(self.done, step)
        if step[0] == "forget":
            await self._check_forgotten(step[1])

    async def _archive(self, step: Step) -> None:
        """A step of the archive's, with what happens in its middle: nothing, its end, or somebody else's step."""
        name, *given = step
        back, number, middle = (*given, None, None, None)[:3]
        untouched = await self._theirs()

        async def then() -> None:
            if middle is None:
                raise CutOff
            await self._act(middle, self.now)

        try:
            async with working(self.dsn) as connection:
                await self._work(name, back, cast("AnyConnection", Watched(connection, number, then)))
            self._count(self.done, step)
        except CutOff:
            self._count(self.done, ["cut off"])
        except NotNow:
            self._count(self.refused, step)
        if middle is None:
            assert await self._theirs() == untouched, "the archive changed what is not its own"
        await self.judge()

    async def _work(self, name: str, back: int | None, connection: AnyConnection) -> None:
        if name == "tidy":
            return await tidy(connection)
        assert back is not None
        if (number := self.now - 1 - abs(back)) < 0:
            return
        found = await the_month(connection, month(number))
        if name == "export":
            await export(connection, found, self.folder, lambda _: None)
            return
        without = back < 0
        await check_droppable(connection, found, None, without_export=without)
        if without:
            self.record.given_up.add(str(found))
        await drop(connection, found, lambda _: None, without_export=without)

    async def judge(self) -> None:
        """See that nothing is lost."""
        wrong = self.record.judge(await on_record(self.db), archived(self.folder))
        assert not wrong, "; ".join(wrong[:3])

    async def _check_forgotten(self, entity_id: str) -> None:
        """Nothing personal of it is in the database; the files that hold it are named."""
        left = [row for row in await all_rows(self.db) if f"secret-{entity_id}-" in row]
        assert not left, f"not forgotten: {left}"
        named, unread = find_archives(await every_month(self.db), [Entity("order", entity_id)])
        holding = [str(path) for path in self.folder.iterdir() if mentions(path, entity_id)]
        unnamed = [path for path in holding if not any(each.startswith(path) for each in (*named, *unread))]
        assert not unnamed, f"forgotten, but held by files that are not named: {unnamed}"

    async def _theirs(self) -> list[str]:
        return [row for row in await all_rows(self.db) if row.startswith(tuple(f"perdure.{x}(" for x in _ONLY_THEIRS))]

    def _count(self, counts: dict[str, int], step: Step) -> None:
        counts[step[0]] = counts.get(step[0], 0) + 1
