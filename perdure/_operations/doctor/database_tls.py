"""TLS to PostgreSQL: whether others on the way can read along, or pose as the server."""

from __future__ import annotations

import ipaddress
import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

from perdure._operations.doctor.check import Check, Needs, Site
from perdure.contracts.problems import Problem

_MEND = "add ?sslmode=verify-full&sslrootcert=FILE to PERDURE_DATABASE_URL: perdure help operating"


async def _look(site: Site) -> list[Problem]:
    async with site.database.acquire(timeout=10) as connection:
        wire: Any = connection
        peer = wire._transport.get_extra_info("peername")
        encrypted = wire._transport.get_extra_info("ssl_object") is not None
    if not is_remote(peer):
        return []
    if not encrypted:
        return [Problem(f"the connection to PostgreSQL at {peer[0]} is not encrypted", _MEND)]
    mode = sslmode(site.config.database_url)
    if mode != "verify-full":
        return [
            Problem(f"sslmode={mode}: whoever poses as PostgreSQL at {peer[0]} is not noticed", _MEND, serious=False)
        ]
    return []


def is_remote(peer: object) -> bool:
    """Whether the other end of a connection is another machine; a Unix socket has no address."""
    if not isinstance(peer, tuple):
        return False
    return not ipaddress.ip_address(str(peer[0]).partition("%")[0]).is_loopback


def sslmode(url: str) -> str:
    """As asyncpg reads it."""
    given = parse_qs(urlsplit(url).query).get("sslmode") or [os.environ.get("PGSSLMODE", "prefer")]
    return given[-1]


DATABASE_TLS = Check("TLS to PostgreSQL", (Needs.DATABASE,), _look)
