"""Which client takes each library's connection, and what its verbs return. For the type checker; each line marked as a
mistake has to be one.
"""

from __future__ import annotations

from typing import assert_type

import asyncpg
import psycopg
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.db import connection as django_connection

from perdure import Client, SyncClient
from perdure.client import Handle


async def starts(
    client: Client,
    sync_client: SyncClient,
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
    assert_type(sync_client.start("order", 1, {}, connection=psycopg_connection), str)
    assert_type(await client.start("order", 1, {}, connection=psycopg_async), Handle)
    assert_type(sync_client.start("order", 1, {}, connection=sqlalchemy_connection), str)
    assert_type(sync_client.start("order", 1, {}, connection=session), str)
    assert_type(sync_client.start("order", 1, {}, connection=scoped_session), str)
    assert_type(await client.start("order", 1, {}, connection=sqlalchemy_async), Handle)
    assert_type(await client.start("order", 1, {}, connection=async_session), Handle)
    assert_type(sync_client.start("order", 1, {}, connection=django_connection), str)
    assert_type(sync_client.signal("order", 1, "paid", connection=session), str)
    assert_type(await client.signal("order", 1, "paid", connection=async_session), str)
    assert_type(sync_client.cancel("order", 1, by="ann", connection=psycopg_connection), str)
    assert_type(await client.cancel("order", 1, by="ann"), str)
    assert_type(sync_client.restart("order", 1, by="ann", note="", connection=django_connection), int)
    assert_type(await client.restart("order", 1, by="ann", note="", connection=asyncpg_lent), int)


async def mistakes(
    client: Client,
    sync_client: SyncClient,
    connection: psycopg.Connection,
    asyncpg_connection: asyncpg.Connection[asyncpg.Record],
    async_session: sqlalchemy.ext.asyncio.AsyncSession,
) -> None:
    await client.start("order", 1, {}, connection=connection)  # type: ignore[arg-type]
    await client.start("order", 1, {}, connection="connection")  # type: ignore[arg-type]
    client.start("order", 1, {}, connection=async_session)  # type: ignore[unused-coroutine]
    client.start("order", 1, {}, connection=async_session).status()  # type: ignore[attr-defined]
    sync_client.start("order", 1, {})  # type: ignore[call-arg]
    sync_client.start("order", 1, {}, connection=None)  # type: ignore[arg-type]
    sync_client.start("order", 1, {}, connection=async_session)  # type: ignore[arg-type]
    sync_client.signal("order", 1, "paid", connection=asyncpg_connection)  # type: ignore[arg-type]
    sync_client.cancel("order", 1, by="ann", connection=connection.cursor())  # type: ignore[arg-type]
    await sync_client.restart("order", 1, by="ann", note="", connection=connection)  # type: ignore[misc]
