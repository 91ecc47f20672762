"""What a verb returns on each library's connection: its result at once, or something to await. For the type checker;
each line marked as a mistake has to be one.
"""

from __future__ import annotations

from typing import assert_type

import asyncpg
import psycopg
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.db import connection as django_connection

from perdure import Client
from perdure.client import Handle


async def starts(
    client: Client,
    asyncpg_connection: asyncpg.Connection[asyncpg.Record],
    asyncpg_lent: asyncpg.pool.PoolConnectionProxy[asyncpg.Record],
    psycopg_connection: psycopg.Connection,
    psycopg_async: psycopg.AsyncConnection[dict[str, object]],
    sqlalchemy_connection: sqlalchemy.Connection,
    session: sqlalchemy.orm.Session,
    scoped_session: sqlalchemy.orm.scoped_session[sqlalchemy.orm.Session],
    sqlalchemy_async: sqlalchemy.ext.asyncio.AsyncConnection,
    async_session: sqlalchemy.ext.asyncio.AsyncSession,
) -> None:
    assert_type(await client.start("order", 1, {}), Handle)
    assert_type(await client.start("order", 1, {}, connection=None), Handle)
    assert_type(await client.start("order", 1, {}, connection=asyncpg_connection), Handle)
    assert_type(await client.start("order", 1, {}, connection=asyncpg_lent), Handle)
    assert_type(client.start("order", 1, {}, connection=psycopg_connection), Handle)
    assert_type(await client.start("order", 1, {}, connection=psycopg_async), Handle)
    assert_type(client.start("order", 1, {}, connection=sqlalchemy_connection), Handle)
    assert_type(client.start("order", 1, {}, connection=session), Handle)
    assert_type(client.start("order", 1, {}, connection=scoped_session), Handle)
    assert_type(await client.start("order", 1, {}, connection=sqlalchemy_async), Handle)
    assert_type(await client.start("order", 1, {}, connection=async_session), Handle)
    assert_type(client.start("order", 1, {}, connection=django_connection), Handle)
    assert_type(client.signal("order", 1, "paid", connection=session), str)
    assert_type(await client.signal("order", 1, "paid", connection=async_session), str)
    assert_type(client.cancel("order", 1, by="ann", connection=psycopg_connection), str)
    assert_type(await client.cancel("order", 1, by="ann"), str)
    assert_type(client.restart("order", 1, by="ann", note="", connection=django_connection), int)
    assert_type(await client.restart("order", 1, by="ann", note="", connection=asyncpg_lent), int)


async def mistakes(
    client: Client, connection: psycopg.Connection, async_session: sqlalchemy.ext.asyncio.AsyncSession
) -> None:
    await client.start("order", 1, {}, connection=connection)  # type: ignore[misc]
    client.start("order", 1, {}, connection=async_session)  # type: ignore[unused-coroutine]
    client.start("order", 1, {}, connection=async_session).status()  # type: ignore[attr-defined]
    client.start("order", 1, {}, connection="connection")  # type: ignore[call-overload]
    client.start("order", 1, {}, connection=connection.cursor())  # type: ignore[call-overload]
