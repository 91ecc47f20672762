"""Finds the entities and the app's rows that belong to an entity by the `Erasure` of its lifecycle."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from perdure._store.bounds import bounds
from perdure._store.row_security import SEE_ALL, hidden_rows
from perdure._store.schema import Connection
from perdure._text.privacy import describe
from perdure.app import App
from perdure.contracts.erasure import Erasure
from perdure.contracts.keys import Entity
from perdure.errors import DeclarationError, NotPermitted

_BOUNDS = bounds(lock="15s", statement="60s")


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The entities that are erased together.

    Attributes:
        entities: the named entity as the last one, and all that belong to it. Each comes before the one to which it
            belongs, so an interrupted erasure finds it again.
        elsewhere: places that cannot be reached, a line each.
        unknown: lifecycles of these entities that the App does not have, so what belongs to them is unknown.
    """

    entities: tuple[Entity, ...]
    elsewhere: tuple[str, ...]
    unknown: tuple[str, ...]


class Rows:
    """Runs the statements that an app declares, in a session of their own.

    Args:
        connection: a connection of the role that may run them, without an open transaction. Triggers of the app's
            tables run with its rights.
    """

    def __init__(self, connection: Connection, app: App) -> None:
        self._connection = connection
        self._app = app

    async def erasure_plan(self, entity: Entity) -> ErasurePlan:
        """Find what belongs to an entity, and check each statement.

        Raises:
            DeclarationError: PostgreSQL cannot run a statement.
            NotPermitted: this role may not run a statement, or row-level security may hide rows from it.
        """
        found: dict[Entity, None] = {entity: None}
        waiting = [entity]
        checked: dict[str, None] = {}
        while waiting:
            each = waiting.pop(0)
            if each.lifecycle not in checked:
                await self._check(each)
                checked[each.lifecycle] = None
            for other in await self._belong_to(each):
                if other not in found:
                    found[other] = None
                    waiting.append(other)
        unknown = [name for name in checked if name not in self._app.lifecycles]
        elsewhere = [line for name in checked for line in self._elsewhere(name)]
        return ErasurePlan(tuple(reversed(found)), tuple(dict.fromkeys(elsewhere)), tuple(unknown))

    async def erase(self, entity: Entity) -> Mapping[str, int]:
        """Erase the app's rows of one entity in one transaction. Returns their number by table."""
        erasure = self._erasure(entity.lifecycle)
        if not erasure.rows:
            return {}
        counts: dict[str, int] = {}
        async with self._connection.transaction():
            await self._connection.execute(_BOUNDS)
            for table, sql in erasure.rows.items():
                async with self._prepared(entity, f"rows[{table!r}]", sql) as execute:
                    counts[table] = int((await self._connection.execute(execute)).rpartition(" ")[2])
        return counts

    def _erasure(self, lifecycle: str) -> Erasure:
        known = self._app.lifecycles.get(lifecycle)
        return (known.erasure if known is not None else None) or Erasure()

    def _elsewhere(self, lifecycle: str) -> list[str]:
        known = self._app.lifecycles.get(lifecycle)
        if known is None:
            return []
        if known.erasure is not None:
            return list(known.erasure.elsewhere)
        row = f" It shows its state in {known.mirror.table}." if known.mirror is not None else ""
        return [f"the app's own data: the lifecycle {lifecycle!r} declares no `erasure`.{row}"]

    async def _check(self, entity: Entity) -> None:
        """Check names, types and rights by EXPLAIN, which runs nothing."""
        erasure = self._erasure(entity.lifecycle)
        statements = {f"rows[{table!r}]": sql for table, sql in erasure.rows.items()}
        if erasure.entities is not None:
            statements["entities"] = erasure.entities
        for where, sql in statements.items():
            async with self._connection.transaction():
                await self._connection.execute(_BOUNDS)
                async with self._prepared(entity, where, sql) as execute:
                    if hidden := await hidden_rows(self._connection, execute):
                        raise NotPermitted(f"{entity.lifecycle}: erasure.{where} would miss rows: {hidden}. {SEE_ALL}")

    async def _belong_to(self, entity: Entity) -> list[Entity]:
        sql = self._erasure(entity.lifecycle).entities
        if sql is None:
            return []
        async with self._connection.transaction(readonly=True):
            await self._connection.execute(_BOUNDS)
            async with self._prepared(entity, "entities", sql) as execute:
                rows = await self._connection.fetch(execute)
        try:
            if any(row["lifecycle"] is None or row["id"] is None for row in rows):
                raise DeclarationError(
                    f"{entity.lifecycle}: erasure.entities returns a row whose lifecycle or id is null: leave it out"
                )
            return [Entity(row["lifecycle"], str(row["id"])) for row in rows]
        except KeyError as error:
            raise DeclarationError(
                f"{entity.lifecycle}: erasure.entities has no column {error}: it is one select with the columns "
                "lifecycle and id"
            ) from None

    @asynccontextmanager
    async def _prepared(self, entity: Entity, where: str, sql: str) -> AsyncIterator[str]:
        """The SQL that executes the statement for this entity. PostgreSQL finds the type of `$1`; the driver would
        need it from the caller."""
        name = f"perdure_erasure_{secrets.token_hex(8)}"  # behind a pooler, a broken one may remain
        try:
            await self._connection.execute(f"prepare {name} as {sql}")
            value = await self._connection.fetchval("select quote_literal($1::text)", entity.id)
            yield f"execute {name}({value})"
            await self._connection.execute(f"deallocate {name}")
        except asyncpg.InsufficientPrivilegeError as error:
            raise NotPermitted(
                f"{entity.lifecycle}: erasure.{where} can't be run: {describe(error)}: grant that right to the role in "
                "PERDURE_ERASURE_DATABASE_URL"
            ) from error
        except asyncpg.PostgresError as error:
            if (error.sqlstate or "08").startswith(("08", "53", "57", "58", "55P03")):
                raise
            raise DeclarationError(f"{entity.lifecycle}: erasure.{where} can't be run: {describe(error)}") from error
