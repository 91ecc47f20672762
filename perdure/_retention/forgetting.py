"""`perdure forget` erases the record of a finished entity and of all that belongs to it, in the database and in
Temporal."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import asyncpg
from temporalio.client import Client

from perdure._retention.erasure_plan import ErasurePlan, Rows
from perdure._retention.histories import closed_runs, delete_runs
from perdure._retention.months import Month, every_month
from perdure._retention.parquet import half_written, holds
from perdure._store.bounds import bounds
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.contracts.keys import Entity
from perdure.errors import InvalidInput, InvalidSetting, NoSuchEntity, NotNow

query = queries(__name__)

T = TypeVar("T")

_AT_ONCE = 20
"""Workflows that are described or deleted at the same time."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The erased data, and the places that could not be reached.

    Attributes:
        rows: number of deleted rows, by table.
        app_rows: number of erased rows of the app, by table.
        runs: number of runs whose histories were deleted from Temporal.
        archives: files that hold one of the entities.
        unread: files that may hold one, each with the reason why that is not known.
    """

    rows: Mapping[str, int]
    app_rows: Mapping[str, int]
    runs: int
    archives: tuple[str, ...]
    unread: tuple[str, ...]


class Eraser:
    """Erases entities.

    Args:
        connection: a connection of the schema's owner, without an open transaction.
        rows: the app's rows.
        temporal_client: client of Temporal.
        scope: the scope of the workers.
    """

    def __init__(self, connection: Connection, rows: Rows, temporal_client: Client, scope: str | None) -> None:
        self._connection = connection
        self._rows = rows
        self._temporal_client = temporal_client
        self._scope = scope

    async def check(self, entities: Sequence[Entity]) -> None:
        """Check that all entities can be erased, before anything is erased.

        Raises:
            NoSuchEntity: the last entity, which was named, does not exist.
            NotNow: an entity is open, or one of its effects is in doubt.
            TemporalUnavailable: Temporal gave no answer.
        """
        lifecycle, entity_id = entities[-1].lifecycle, entities[-1].id
        if not await self._connection.fetchval(query("is_on_record"), lifecycle, entity_id):
            raise NoSuchEntity(f"there is no {entities[-1]}: it was never started, or its transaction was rolled back")
        names, ids = [each.lifecycle for each in entities], [each.id for each in entities]
        if left := await self._connection.fetch(query("not_forgettable"), names, ids):
            first = Entity(left[0]["lifecycle"], left[0]["id"])
            of = f" ({len(left)} of {len(entities)} entities are open or in doubt)" if len(entities) > 1 else ""
            if left[0]["open"]:
                raise NotNow(f"{first} is still open{of}: cancel it first, and wait for its end")
            raise NotNow(f"whether {left[0]['key']!r} happened is not known{of}: settle it first (perdure resolve)")
        await _each(entities, lambda each: closed_runs(self._temporal_client, each.workflow_id(self._scope)))

    async def erase(self, plan: ErasurePlan, by: str) -> Forgotten:
        """Erase the entities, some at a time. The erasure can be interrupted anywhere and run again: an entity is found
        again as long as anything that belongs to it is left.

        Args:
            by: the person, for the record.

        Raises:
            NotNow: an entity was restarted meanwhile, another transaction holds it, or a month is being exported or
                dropped.
            InvalidInput: `by` cannot be used.
            TemporalUnavailable: Temporal gave no answer.
        """
        rows: Counter[str] = Counter()
        app_rows: Counter[str] = Counter()
        runs = 0
        entities = plan.entities
        for start in range(0, len(entities), _AT_ONCE):
            some = entities[start : start + _AT_ONCE]
            for each in some:
                rows.update(await _erase(self._connection, each, by))
            runs += sum(await _each(some, lambda one: delete_runs(self._temporal_client, one.workflow_id(self._scope))))
            for each in some:
                app_rows.update(await self._rows.erase(each))
        archives, unread = find_archives(await every_month(self._connection), entities)
        return Forgotten(rows, app_rows, runs, archives, unread)


def find_archives(months: Iterable[Month], entities: Sequence[Entity]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that hold one of these entities, and files of which that is not known.

    An interrupted export may have left files, some of them half written. A path without a file counts only if the
    newest export has written it, or if its folder cannot be read from here.
    """
    found, unread = [], []
    for month in months:
        newest = {file.path for file in month.files}
        for path in (Path(each) for each in month.paths):
            try:
                unread += [f"{each} is half written: delete it" for each in half_written(path)]
                if not path.exists() and path.parent.is_dir() and str(path) not in newest:
                    continue
                if holds(path, entities):
                    found.append(str(path))
            except OSError as error:
                unread.append(f"{path} can't be read from here: {error.strerror or error}")
            except InvalidSetting as error:
                unread.append(f"{path}: {error}")
    return tuple(found), tuple(unread)


async def _each(entities: Iterable[Entity], act: Callable[[Entity], Awaitable[T]]) -> list[T]:
    """Act on each entity, some at a time."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(entity: Entity) -> T:
        async with few:
            return await act(entity)

    return await asyncio.gather(*map(one, entities))


async def _erase(connection: Connection, entity: Entity, by: str) -> Mapping[str, int]:
    try:
        async with connection.transaction():
            await connection.execute(bounds(lock="15s", statement="60s"))
            found = await connection.fetchval("select perdure.forget($1, $2, $3)", entity.lifecycle, entity.id, by)
    except asyncpg.NoDataFoundError:
        return {}  # belongs to another entity, and was never started
    except asyncpg.LockNotAvailableError as error:  # of the class below
        raise NotNow(f"another transaction holds {entity}: try again later") from error
    except asyncpg.ObjectNotInPrerequisiteStateError as error:
        raise NotNow(f"{error.args[0]}: {getattr(error, 'hint', None)}") from error
    except asyncpg.DataError as error:
        raise InvalidInput(f"{error.args[0]}: {getattr(error, 'hint', None)}") from error
    return {table: int(count) for table, count in json.loads(found).items()}
