"""Connections to the app's database, opened as Perdure opens its own, and the schema `perdure`.

Bodies of effects and steps, and commands that receive callbacks, need such connections for the app's own tables. Unlike
`asyncpg.create_pool`, this pool works behind PgBouncer, and an error about a URL, a certificate or a key names the
setting or the file, and shows no password.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg

from perdure._store import schema
from perdure._store.connecting import Pool as Pool
from perdure._store.schema import Connection as Connection
from perdure._store.secured import connect
from perdure.settings import Settings


def open_pool(config: Settings, name: str, *, command_timeout: float, **more: Any) -> AbstractAsyncContextManager[Pool]:
    """Connections to the database of `config.database_url`, `config.connections` at most, opened when first needed.

    The worker has other connections, so a body that holds all of these delays no lifecycle.

    Args:
        config: the settings, as the function in `App(lifespan=...)` gets them.
        name: the `application_name` of the connections in PostgreSQL.
        command_timeout: seconds that a statement may take.
        more: further arguments for `asyncpg.create_pool`.

    Raises:
        UnusableFile: a certificate or key cannot be used, or the server's certificate is not trusted. Raised when a
            connection is opened.
        InvalidSetting: the URL cannot be used. Raised when a connection is opened.
    """
    return asyncpg.create_pool(
        config.database_url,
        connect=connect,
        min_size=0,
        max_size=config.connections,
        command_timeout=command_timeout,
        statement_cache_size=0,  # for PgBouncer
        server_settings={"application_name": name},
        **more,
    )


async def migrate(connection: Connection) -> None:
    """Create or update the schema `perdure`, as `perdure migrate` does: for tests, and for deployments that migrate in
    Python. All changes are applied, or none. Concurrent calls do no harm.

    Raises:
        SchemaMismatch: the database has migrations that this version does not have and cannot work with.
        NotNow: another session has migrated, or held a table that a migration changes, for a minute.
        InvalidSetting: the encoding of the database is not UTF8.
    """
    await schema.migrate(connection)
