"""PostgreSQL: its version, whether it takes writes, and whether it keeps what it commits."""

from __future__ import annotations

from perdure._operations.connecting import PRIMARY
from perdure._operations.doctor.check import Check, Needs, Site
from perdure._store.connecting import weaknesses
from perdure.contracts.problems import Problem
from perdure.settings import without_passwords

OLDEST = 15
_VERSION = "select current_setting('server_version_num')::int / 10000"

_WRITES = "select not pg_is_in_recovery() as is_primary, current_setting('transaction_read_only') = 'off' as may_write"
_WRITABLE = "make room if its disk is full, else set default_transaction_read_only = off"


async def _look(site: Site) -> list[Problem]:
    async with site.database.acquire(timeout=10) as connection:
        version = await connection.fetchval(_VERSION)
        writes = await connection.fetchrow(_WRITES)
        lost = await weaknesses(connection)
    found = [Problem(f"PostgreSQL may lose what it commits: {each}", _durable(each)) for each in lost]
    assert writes is not None
    if not writes["is_primary"]:
        found.append(Problem(f"PostgreSQL at {without_passwords(site.config.database_url)} is a standby", PRIMARY))
    elif not writes["may_write"]:
        found.append(Problem(f"PostgreSQL at {without_passwords(site.config.database_url)} is read-only", _WRITABLE))
    if version < OLDEST:
        found.append(
            Problem(f"PostgreSQL {version} is older than {OLDEST}, the oldest that is tested", "upgrade PostgreSQL")
        )
    return found


def _durable(weakness: str) -> str:
    name = weakness.partition("=")[0]
    return f"psql -c 'alter system set {name} = on' -c 'select pg_reload_conf()'"


DATABASE_SERVER = Check("PostgreSQL", (Needs.DATABASE,), _look)
