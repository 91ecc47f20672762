"""Checks that a callback comes from the provider: `X-Twilio-Signature` (twilio.com/docs/usage/security).

HMAC-SHA1 with the account's auth token over the URL, as the provider has it, and the sorted parameters of the form. A
body of JSON is not signed itself: the signed URL has its SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs, parse_qsl, urlsplit

Parameters = Sequence[tuple[str, str]]
_STANDARD = {"https": 443, "http": 80}


def signature(token: str, url: str, parameters: Parameters = ()) -> str:
    """The parameters of the form."""
    content = url + "".join(name + value for name, value in sorted(set(parameters)))
    return base64.b64encode(hmac.digest(token.encode(), content.encode(), hashlib.sha1)).decode()


def is_genuine(tokens: Iterable[str], url: str, body: bytes, given: str) -> bool:
    """Whether the provider has signed it with one of the tokens.

    Args:
        url: the whole public URL that the provider called, not that behind a proxy.
        body: as it came: a form, or JSON whose SHA-256 the URL has.
        given: the header.
    """
    query = urlsplit(url).query
    digest = parse_qs(query).get("bodySHA256")
    parameters: Parameters = ()
    if digest is not None:
        if not hmac.compare_digest(hashlib.sha256(body).hexdigest().encode(), digest[0].encode()):
            return False
    else:
        parameters = form_of(body)
    expected = [signature(token, each, parameters) for token in tokens for each in _spellings(url)]
    # All are compared, so that the time does not show which one came close.
    return sum(hmac.compare_digest(each.encode(), given.encode("utf-8", "replace")) for each in expected) > 0


def form_of(body: bytes) -> list[tuple[str, str]]:
    """The parameters of a form; empty ones too, which are signed as well.

    Raises:
        ValueError: it is none.
    """
    return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200)


def _spellings(url: str) -> list[str]:
    """With the port and without: the provider is not consistent there, so its own libraries try both."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    host = place[: place.index("]") + 1] if place.startswith("[") else place.partition(":")[0]
    port = parts.port or _STANDARD.get(parts.scheme, 443)
    return [parts._replace(netloc=f"{user}{at}{each}").geturl() for each in (host, f"{host}:{port}")]
