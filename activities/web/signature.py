"""Signs a request as Standard Webhooks has it (github.com/standard-webhooks/standard-webhooks, v1).

Secrets are given by reference, and read anew for each request: they stand in no table, payload, history or log.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from pathlib import Path

_PREFIX = "whsec_"
_SHORTEST = 24  # bytes: the specification's own limit


class NoSecret(Exception):
    """A secret that can't be used; the message names its place and what is wrong with it, never what it is."""


def signed(places: str | None, id: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers of a signed request; none without a place.

    Args:
        places: where the secrets are: `env:NAME` or `file:/path`, separated by blanks, the newest first.
        id: the same for each attempt.
        at: seconds since 1970.
        body: of the request.

    Raises:
        NoSecret: one of them is missing or no `whsec_...`.
    """
    if not places:
        return {}
    content = f"{id}.{at}.".encode() + body
    return {
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(_signature(secret, content) for secret in secrets(places)),
    }


def secrets(places: str) -> list[bytes]:
    """The secrets at these places, decoded.

    Raises:
        NoSecret: as above.
    """
    return [_decoded(place, text_at(place)) for place in places.split()]


def _signature(secret: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()


def text_at(place: str) -> str:
    """What is at `env:NAME` or `file:/path`.

    Raises:
        NoSecret: nothing that can be read.
    """
    kind, _, name = place.partition(":")
    if kind == "env":
        if name not in os.environ:
            raise NoSecret(f"the secret {place} is not in the environment of this worker")
        return os.environ[name]
    try:
        return Path(name).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not plain text"
        raise NoSecret(f"the secret {place} can't be read: {why}") from None


def _decoded(place: str, text: str) -> bytes:
    secret = text.strip()
    if not secret.startswith(_PREFIX):
        raise NoSecret(f"the secret {place} does not begin with {_PREFIX}")
    try:
        decoded = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise NoSecret(f"the secret {place} is not base64 after {_PREFIX}") from None
    if len(decoded) < _SHORTEST:
        raise NoSecret(f"the secret {place} has {len(decoded)} bytes; {_SHORTEST} is the least")
    return decoded
