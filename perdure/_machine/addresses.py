"""A database URL as Temporal's server takes it: host, port, user, password and TLS, by variables of its own."""

from __future__ import annotations

import getpass
import os
from urllib.parse import parse_qs, unquote, urlsplit

from perdure._store.secured import file_of
from perdure.errors import InvalidSetting
from perdure.servers.temporal_on_postgres import ServerDatabase
from perdure.settings import without_passwords

_FILES = {"sslrootcert": "SQL_CA", "sslcert": "SQL_CERT", "sslkey": "SQL_CERT_KEY"}


def server_database(name: str, url: str) -> ServerDatabase:
    """Read a URL as our own connections do, with libpq's variables for what it lacks. A socket's folder becomes
    127.0.0.1, since Temporal connects by TCP alone.

    Args:
        name: the variable that holds it, for errors.
        url: `postgresql://user:password@host:port/database?sslmode=...`.

    Raises:
        InvalidSetting: it can't be used for Temporal.
    """
    try:
        parts = urlsplit(url)
        written = parts.port
    except ValueError:
        raise InvalidSetting(f"{name}={without_passwords(url)}: it can't be read") from None
    given = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if "service" in given:
        raise InvalidSetting(f"{name}={without_passwords(url)}: Temporal reads no service file: write host and port")
    host = unquote(parts.hostname or "") or given.get("host") or os.environ.get("PGHOST", "")
    if "," in parts.netloc or "," in host:
        raise InvalidSetting(
            f"{name}={without_passwords(url)}: Temporal takes one host: set PERDURE_TEMPORAL_DATABASE_URL to it"
        )
    if not host or host.startswith("/"):
        host = "127.0.0.1"
    port = str(written or given.get("port") or os.environ.get("PGPORT") or 5432)
    if not port.isdecimal():
        raise InvalidSetting(f"{name}={without_passwords(url)}: the port {port!r} is no number")
    user = unquote(parts.username or "") or given.get("user") or os.environ.get("PGUSER") or getpass.getuser()
    password = unquote(parts.password or "") or given.get("password") or os.environ.get("PGPASSWORD", "")
    return ServerDatabase(host, int(port), user, password, _tls(name, url, given))


def role_database(name: str, url: str) -> ServerDatabase:
    """Read a URL whose role and password Temporal itself is to use.

    Raises:
        InvalidSetting: it can't be used for Temporal, or its configuration can't hold them.
    """
    database = server_database(name, url)
    if not database.password and "passfile" in parse_qs(urlsplit(url).query):
        raise InvalidSetting(f"{name}: Temporal reads no password file: write the password into the URL")
    if any(each in f"{database.user}{database.password}" for each in '"\\\n{'):
        raise InvalidSetting(f'{name}: Temporal takes no user or password with ", \\, {{ or a line break in it')
    return database


def _tls(name: str, url: str, given: dict[str, str]) -> dict[str, str]:
    mode = given.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer"
    if mode in ("disable", "allow", "prefer"):
        return {}
    if mode not in ("require", "verify-ca", "verify-full"):
        raise InvalidSetting(f"{name}: sslmode={mode!r} is none of disable, allow, prefer, require, verify-full")
    verified = "false" if mode == "require" else "true"  # for verify-ca the name is checked as well
    files = {variable: file for key, variable in _FILES.items() if (file := file_of(url, key)) is not None}
    return {"SQL_TLS_ENABLED": "true", "SQL_HOST_VERIFICATION": verified, **files}
