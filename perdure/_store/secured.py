"""`connect` of asyncpg, with errors that name an unusable file and show no password.

asyncpg reads the files again for each connection, so a changed certificate, key or password applies to every new
connection.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
from asyncpg.exceptions import TargetServerAttributeNotMatched

from perdure.errors import InvalidSetting, UnusableFile
from perdure.settings import without_passwords

_VARIABLES = {
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "passfile": "PGPASSFILE",
}
"""The variables of libpq and asyncpg: https://www.postgresql.org/docs/current/libpq-envars.html"""


async def connect(dsn: str | None = None, **more: Any) -> Any:
    """A connection, as `asyncpg.connect` makes it; also for `asyncpg.create_pool(connect=...)`.

    Args:
        dsn: the URL, which is required.
        more: further arguments for asyncpg.

    Raises:
        UnusableFile: a certificate or key cannot be used, or the server's certificate is not trusted.
        InvalidSetting: the URL cannot be used.
        OSError, asyncpg.PostgresError: as asyncpg.
    """
    assert dsn is not None
    with _explained(dsn):
        return await asyncpg.connect(dsn, **more)


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Replace errors of asyncpg about a URL, which may quote a part of a password."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise UnusableFile(
            f"the certificate of PostgreSQL at {_place(url)} is not trusted by "
            f"{named(url, 'sslrootcert')}: {error.verify_message}"
        ) from None
    except (ssl.SSLError, FileNotFoundError, PermissionError, IsADirectoryError) as error:
        if (why := _unusable(url)) is not None:
            raise UnusableFile(why) from None
        if isinstance(error, ssl.SSLError):
            raise UnusableFile(
                f"PostgreSQL at {_place(url)} ends the TLS handshake: {error.reason}; check {named(url, 'sslcert')}"
            ) from None
        raise
    except TargetServerAttributeNotMatched as error:
        raise ConnectionError(str(error)) from None
    except asyncpg.InterfaceError as error:
        if not isinstance(error, ValueError):
            raise
        raise unusable(url, str(error).splitlines()[0]) from None
    except OverflowError:
        raise unusable(url, "a port is 0 to 65535") from None
    except ValueError:
        form = "write postgresql://user:password@host:port/database, with what is special in the password as %XX"
        raise unusable(url, form) from None
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        why = _passfile(url)
        raise error if why is None else UnusableFile(why) from error


def _unusable(url: str) -> str | None:
    """The file that cannot be used, and why; None = all can be used."""
    for name in ("sslrootcert", "sslcrl", "sslcert"):
        file = file_of(url, name)
        if file is None:
            continue
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            Path(file).read_bytes()
            if name == "sslcert":
                return _unusable_pair(url, context, file)
            context.load_verify_locations(cafile=file)
        except OSError as error:
            return f"{named(url, name)} can't be used: {_why(error)}"
    return None


def _unusable_pair(url: str, context: ssl.SSLContext, cert: str) -> str | None:
    key = file_of(url, "sslkey")
    try:
        if key is not None:
            Path(key).read_bytes()
    except OSError as error:
        return f"{named(url, 'sslkey')} can't be used: {_why(error)}"
    try:
        context.load_cert_chain(cert, key, password="")
    except OSError as error:
        of = "" if key is None else f" with {named(url, 'sslkey')}"
        return f"{named(url, 'sslcert')}{of} can't be used: {_why(error)}"
    return None


def _passfile(url: str) -> str | None:
    """Check a password file that asyncpg, like libpq, ignores if others may read it."""
    file = file_of(url, "passfile")
    if file is None:
        return None
    try:
        mode = stat.S_IMODE(Path(file).stat().st_mode)
    except OSError as error:
        return f"{named(url, 'passfile')} can't be used: {_why(error)}"
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{named(url, 'passfile')} has mode {mode:04o}, and others than its owner may use it: chmod 600 it"
    return None


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "certificate and key do not belong together" if "MISMATCH" in (error.reason or "") else "it is not PEM"
    return error.strerror or type(error).__name__


def file_of(url: str, name: str) -> str | None:
    """The file that a parameter of the URL names, or libpq's variable for it; None = neither."""
    given = parse_qs(urlsplit(url).query).get(name)
    return given[-1] if given else os.environ.get(_VARIABLES[name])


def named(url: str, name: str) -> str:
    """The setting and its file, with the names that an operator uses."""
    file = file_of(url, name)
    if file is None:
        return f"{name} (not set)"
    in_url = name in parse_qs(urlsplit(url).query)
    return f"{name if in_url else _VARIABLES[name]}={file!r}"


def setting_of(url: str) -> str:
    """The name of the setting with this URL."""
    others = ("PERDURE_COLUMN_DATABASE_URL", "PERDURE_ERASURE_DATABASE_URL")
    return next((name for name in others if os.environ.get(name) == url), "PERDURE_DATABASE_URL")


def unusable(url: str, why: object) -> InvalidSetting:
    """The error about an unusable URL, which names the setting and shows no password."""
    return InvalidSetting(f"{setting_of(url)}={without_passwords(url)} can't be used: {why}")


def _place(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] or "its socket"
