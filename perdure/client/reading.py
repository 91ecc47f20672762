"""Reads the mirror through the client's own pool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
from pydantic import TypeAdapter

from perdure._store.parked import is_about_doubt
from perdure._store.postgres import Pool, answering
from perdure._store.schema.kinds import RIGHTS, Kind
from perdure._store.schema.rights import granted
from perdure._store.sql import queries
from perdure._text.shown import entity_name
from perdure.client.calls import Call
from perdure.client.records import EffectRecord, EntityStatus
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import DatabaseUnavailable, InvalidInput, NoSuchEntity, NotNow, NotPermitted

_query = queries(__name__)

_STATUS = TypeAdapter(EntityStatus)


async def read_status(pool: Pool, lifecycle: str, entity_id: str) -> EntityStatus:
    """The status of an entity; see `Client.status`. Ids that an earlier version allowed can be read as well."""
    async with refusals(pool, f"the status of {entity_name(lifecycle, entity_id)}", Kind.APP, Kind.READER):
        # As text, because the app's pool may decode JSON.
        found = await pool.fetchval("select perdure.status($1, $2)::text", lifecycle, entity_id)
    if found is None:
        raise NoSuchEntity(
            f"there is no {entity_name(lifecycle, entity_id)}: it was never started, or its transaction was rolled back"
        )
    return _STATUS.validate_json(found)


def waiting_for_person(standing: EntityStatus) -> list[EffectRecord]:
    """The effects in doubt, if an open entity needs a person for a doubt: otherwise their policies are at work."""
    if not is_about_doubt(standing.attention):
        return []
    return [each for each in standing.effects if each.status is EffectStatus.IN_DOUBT]


async def read_open(
    pool: Pool, name: str, state: str | None, attention: bool, before: datetime | None, limit: int
) -> list[EntityStatus]:
    """Open entities; see `Client.list`."""
    async with refusals(pool, f"the list of {name}", Kind.READER):
        rows = await pool.fetch(_query("open_entities"), name, state, attention, before, limit)
    return [EntityStatus(**dict(row), final=False) for row in rows]


async def carry_out(pool: Pool, call: Call) -> Any:
    """The result of a call in a transaction of its own, which is READ COMMITTED whatever the app's pool has as its
    default: a snapshot that is older than another session's commit fails, or does not show a doubt.

    Raises:
        NoSuchEntity: there is no such entity.
        NotNow: the call makes no sense in the entity's present state.
        InvalidInput: an argument cannot be used.
        NotPermitted: the database role lacks a right.
        DatabaseUnavailable: no answer, or another transaction holds the entity.
    """
    kind = Kind.APP if call.function in (RIGHTS[Kind.APP].functions or ()) else Kind.OPERATOR
    async with (
        refusals(pool, str(call), kind),
        pool.acquire() as connection,
        connection.transaction(isolation="read_committed"),
    ):
        return await connection.fetchval(call.sql("${}"), *call.values)


@asynccontextmanager
async def refusals(pool: Pool, what: str, *kinds: Kind) -> AsyncIterator[None]:
    """Convert exceptions of the schema's functions into Perdure's errors; see `carry_out`.

    Args:
        pool: as for `permitting`.
        kinds: of roles that may do it.
    """
    try:
        with answering():
            yield
    except asyncpg.NoDataFoundError as error:
        raise NoSuchEntity(_with_hint(error)) from error
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:  # the first is of the class below
        raise DatabaseUnavailable(f"{what}: another transaction holds it: try again later") from error
    except asyncpg.ObjectNotInPrerequisiteStateError as error:
        raise NotNow(_with_hint(error)) from error
    except asyncpg.InsufficientPrivilegeError as error:
        with answering():
            way_out = getattr(error, "hint", None) or await granted(pool, *kinds)
        raise NotPermitted(f"{what}: {error.args[0]}: {way_out}") from error
    except (asyncpg.DataError, asyncpg.ProgramLimitExceededError) as error:
        raise InvalidInput(f"{what}: {_with_hint(error)}") from error


def _with_hint(error: asyncpg.PostgresError) -> str:
    hint = getattr(error, "hint", None)
    return f"{error.args[0]}: {hint}" if hint else str(error)  # `str` of the error contains the hint as well
