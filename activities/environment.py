"""Settings of the outside systems are read from the environment, once, when a worker imports the bodies.

With a wrong one the worker does not start, and one line names the variable.
"""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from perdure.errors import InvalidSetting

_Settings = TypeVar("_Settings", bound=BaseSettings)


def read_settings(kind: type[_Settings], prefix: str) -> _Settings:
    """Settings of a kind from the environment.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    try:
        return kind()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        variable = prefix + str(first["loc"][0]).upper() + ": " if first["loc"] else ""
        raise InvalidSetting(variable + first["msg"].removeprefix("Value error, ")) from None


def usable_certificates(path: Path | None) -> Path | None:
    """`path`, if it holds certificates."""
    try:
        if path is not None:
            ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ValueError(f"can't be used as certificates: {error.strerror}") from None
    return path


def listed(given: Any) -> Any:
    """The items of a comma-separated value."""
    return [each.strip() for each in given.split(",") if each.strip()] if isinstance(given, str) else given


def is_place(url: str, *, path: bool) -> bool:
    """Whether `url` names a place on the web, without user, query and fragment."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.scheme in ("http", "https") and (parts.port or 1) > 0
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and not parts.query and not parts.fragment and "@" not in parts.netloc
    return named and plain and (path or parts.path in ("", "/"))


def is_loopback(host: str) -> bool:
    """Whether that is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
