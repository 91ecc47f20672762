"""Connections to the app's database, opened as Perdure opens its own, and the schema `perdure` in it.

Every application that touches its tables outside of a lifecycle needs such connections: the bodies of its effects and
steps, and the commands that receive callbacks. `asyncpg.create_pool` serves as well. What this one adds: it works
behind PgBouncer, and an error about a URL, a certificate or a key names the setting or the file, and no password.
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

    They are apart from those of the worker, so that a body that holds all of them holds up no lifecycle.

    Args:
        config: the settings, as `App(lifespan=...)` is given them.
        name: the `application_name` by which they show in the database.
        command_timeout: seconds that a statement may take.
        more: further arguments for `asyncpg.create_pool`.

    Raises:
        UnusableFile: when a connection is opened: a certificate or key can't be used, or the server's is not trusted.
        InvalidSetting: when a connection is opened: the URL can't be used.
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
    """Make the schema `perdure`, or bring it up to date, as `perdure migrate` does: for tests, and for deployments
    that migrate in Python. All of it is applied, or nothing; many may call it at once.

    Raises:
        SchemaMismatch: the database has migrations that this version does not know and can't work with.
        NotNow: another session migrates, and has done so for a minute.
    """
    await schema.migrate(connection)
