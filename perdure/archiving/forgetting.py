"""`perdure forget`: what is on record of one finished entity is erased, in the database and in Temporal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from temporalio.client import Client

from perdure.archiving.histories import closed_runs, delete_runs
from perdure.archiving.months import Month, every_month
from perdure.archiving.parquet import half_written, holds
from perdure.contracts.keys import Entity
from perdure.errors import InvalidInput, InvalidSetting, NoSuchEntity, NotNow
from perdure.schema import Connection


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What went, and what is not reached from here.

    Attributes:
        rows: how many went from the database, by table.
        runs: how many runs' histories went from Temporal.
        archives: files that hold the entity.
        unread: files that may hold it, each with why that can't be seen from here.
    """

    rows: Mapping[str, int]
    runs: int
    archives: tuple[str, ...]
    unread: tuple[str, ...]


async def forget(connection: Connection, engine: Client, scope: str | None, entity: Entity, by: str) -> Forgotten:
    """Erase a finished entity. It may be cut off anywhere, and run again.

    Args:
        connection: with no transaction open.
        scope: as the workers have it.
        by: who asks, for the record.

    Raises:
        NoSuchEntity: there is none.
        NotNow: it is open, an effect of it is in doubt, or a month is being exported or dropped.
        InvalidInput: `by` can't be used.
        EngineUnavailable: Temporal gave no answer: what is left there goes when this is run again.
    """
    workflow_id = entity.workflow_id(scope)
    await _check(connection, entity)
    await closed_runs(engine, workflow_id)  # refuses while one is open, before anything is gone
    rows = await _erase(connection, entity, by)
    runs = await delete_runs(engine, workflow_id)
    archives, unread = find_archives(await every_month(connection), entity)
    return Forgotten(rows, runs, archives, unread)


def find_archives(months: Iterable[Month], entity: Entity) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that hold an entity, and those of which that can't be told from here.

    An export that was cut off may have left files, of which some are half written. A path without a file counts only
    where the newest export has written it, or its folder can't be seen from here.
    """
    found, unread = [], []
    for month in months:
        newest = {file.path for file in month.files}
        for path in (Path(each) for each in month.paths):
            unread += [f"{each} is half written: delete it" for each in half_written(path)]
            if not path.exists() and path.parent.is_dir() and str(path) not in newest:
                continue
            try:
                if holds(path, entity.lifecycle, entity.id):
                    found.append(str(path))
            except OSError:
                unread.append(f"{path} can't be read from here")
            except InvalidSetting as error:
                unread.append(f"{path}: {error}")
    return tuple(found), tuple(unread)


async def _check(connection: Connection, entity: Entity) -> None:
    """Tell at once what the function would refuse; it is asked again when it counts."""
    row = await connection.fetchrow(
        "select final from perdure.ident where lifecycle = $1 and id = $2", entity.lifecycle, entity.id
    )
    if row is None:
        raise NoSuchEntity(f"there is no {entity}: it was never started, or its transaction was rolled back")
    if row["final"] is None:
        raise NotNow(f"{entity} is still open: cancel it first, and wait for its end")


async def _erase(connection: Connection, entity: Entity, by: str) -> Mapping[str, int]:
    try:
        async with connection.transaction():
            await connection.execute("set local lock_timeout = '15s'; set local statement_timeout = '60s'")
            found = await connection.fetchval("select perdure.forget($1, $2, $3)", entity.lifecycle, entity.id, by)
    except (asyncpg.ObjectNotInPrerequisiteStateError, asyncpg.NoDataFoundError) as error:
        raise NotNow(f"{error.args[0]}: {getattr(error, 'hint', None)}") from error
    except asyncpg.DataError as error:
        raise InvalidInput(f"{error.args[0]}: {getattr(error, 'hint', None)}") from error
    return {table: int(count) for table, count in json.loads(found).items()}
