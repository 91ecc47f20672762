"""PostgreSQL: its version, and whether it keeps what it commits."""

from __future__ import annotations

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._store.connecting import weaknesses
from perdure.contracts.problems import Problem

OLDEST = 15
_VERSION = "select current_setting('server_version_num')::int / 10000"


async def _look(site: Site) -> list[Problem]:
    async with site.database.acquire(timeout=10) as connection:
        version = await connection.fetchval(_VERSION)
        lost = await weaknesses(connection)
    found = [Problem(f"PostgreSQL may lose what it commits: {each}", _durable(each)) for each in lost]
    if version < OLDEST:
        found.append(
            Problem(f"PostgreSQL {version} is older than {OLDEST}, the oldest that is tested", "upgrade PostgreSQL")
        )
    return found


def _durable(weakness: str) -> str:
    name = weakness.partition("=")[0]
    return f"psql -c 'alter system set {name} = on' -c 'select pg_reload_conf()'"


DATABASE_SERVER = Check("PostgreSQL", (Needs.DATABASE,), _look)
