"""A database URL as Temporal's server takes it: host, port, user, password and TLS, by variables of its own."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from perdure.errors import InvalidSetting
from perdure.servers.temporal_on_postgres import ServerDatabase
from perdure.settings import without_passwords

_PORT = 5432
_FILES = {"sslrootcert": "SQL_CA", "sslcert": "SQL_CERT", "sslkey": "SQL_CERT_KEY"}


def server_database(name: str, url: str) -> ServerDatabase:
    """Read a URL. A socket's folder becomes 127.0.0.1, since Temporal connects by TCP alone.

    Args:
        name: the variable that holds it, for errors.
        url: `postgresql://user:password@host:port/database?sslmode=...`.

    Raises:
        InvalidSetting: it can't be used for Temporal.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidSetting(f"{name}={without_passwords(url)}: it can't be read") from None
    given = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = parts.hostname or given.get("host", "")
    if "," in parts.netloc or "," in host:
        raise InvalidSetting(
            f"{name}={without_passwords(url)}: Temporal takes one host: set PERDURE_TEMPORAL_DATABASE_URL to it"
        )
    if not host or host.startswith("/"):
        host = "127.0.0.1"
    user, password = unquote(parts.username or given.get("user", "")), unquote(parts.password or "")
    if any(each in f"{user}{password}" for each in '"\\\n{'):
        raise InvalidSetting(f'{name}: Temporal takes no user or password with ", \\, {{ or a line break in it')
    return ServerDatabase(host, port or int(given.get("port", _PORT)), user, password, _tls(name, given))


def _tls(name: str, given: dict[str, str]) -> dict[str, str]:
    mode = given.get("sslmode", "prefer")
    if mode in ("disable", "allow", "prefer"):
        return {}
    if mode not in ("require", "verify-ca", "verify-full"):
        raise InvalidSetting(f"{name}: sslmode={mode!r} is none of disable, allow, prefer, require, verify-full")
    verified = "false" if mode == "require" else "true"  # for verify-ca the name is checked as well
    files = {variable: given[key] for key, variable in _FILES.items() if key in given}
    return {"SQL_TLS_ENABLED": "true", "SQL_HOST_VERIFICATION": verified, **files}
