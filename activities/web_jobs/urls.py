"""URLs of job types: templates of RFC 6570 whose origin is plain text, so that no param can lead a call elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from uritemplate import URITemplate

_LONGEST = 4000
_EXPRESSION = re.compile(r"\{(.*?)\}")
# RFC 6570, 2.2 to 2.4, without `#`, since a fragment is never sent, and without `+`, which encodes no slash.
_NAME = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_VARIABLE = rf"{_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
_INSIDE = re.compile(rf"[./;?&]?{_VARIABLE}(?:,{_VARIABLE})*")


def checked(url: str) -> str:
    """`url`, if it can be called.

    Raises:
        ValueError: it cannot. The message has the reason.
    """
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:  # before anything that quotes it: a password may stand there
        raise ValueError("it names a user: send a header, or sign the calls (signed_with)")
    if not re.match(r"https?://", url):
        raise ValueError(f"{url!r} does not begin with http:// or https://")
    if not re.fullmatch(r"[!-~]+", url) or "\\" in url:
        raise ValueError(f"{url!r} has blanks or characters that a URL can't have: percent-encode them")
    if len(url) > _LONGEST:
        raise ValueError(f"{url[:60]!r}... is longer than {_LONGEST:,} characters: send a payload instead")
    _check_expressions(url)
    _check_origin(url, authority)
    return url


def names(url: str) -> list[str]:
    """The params that a template names, in their order."""
    return [str(name) for name in URITemplate(url).variable_names]


def expanded(url: str, params: Mapping[str, object]) -> str:
    """The URL for `params`, each percent-encoded, without parameters that are not given."""
    return URITemplate(url).expand({name: _text(value) for name, value in params.items()})


def origin(url: str) -> str:
    """`scheme://host[:port]` of a URL or template."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _check_origin(url: str, authority: str) -> None:
    if "{" in authority:
        raise ValueError(f"{url!r} has a template in its origin: only what follows the host may vary")
    if "#" in url:
        raise ValueError(f"{url!r} has a fragment, which is never sent: leave out # and what follows")
    try:
        parts = urlsplit(url)
        known = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known or authority.endswith(":"):
        raise ValueError(f"{url!r} has no usable host and port: write https://host/path or https://host:8443/path")


def _check_expressions(url: str) -> None:
    rest = url
    for each in _EXPRESSION.finditer(url):
        if each[1].startswith("+"):
            name = each[1][1:]
            raise ValueError(f"{each[0]!r} would let a param change the rest of the URL: write {{{name}}}")
        if not _INSIDE.fullmatch(each[1]):
            raise ValueError(f"{each[0]!r} is no expression of RFC 6570: write {{name}}, {{?name,name}} or {{&name}}")
        rest = rest.replace(each[0], "", 1)
    if "{" in rest or "}" in rest:
        raise ValueError(f"{url!r} has a brace without its other half")


def _text(value: object) -> str:
    """As JSON writes it: True is `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
