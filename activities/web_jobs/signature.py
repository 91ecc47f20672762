"""Signs a request by HTTP Message Signatures (RFC 9421), with HMAC-SHA256.

A signature covers the method, the URL, the body, the key, the job and the time. Secrets are given by reference, and
read anew for each request: they stand in no table, payload, history or log.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from yarl import URL

from activities.secrets import NoSecret, text_at

_PREFIX = "whsec_"
_SHORTEST = 24  # bytes
_COVERED = ("@method", "@target-uri", "content-digest", "idempotency-key", "perdure-job")
_COVERED_IF_SENT = ("perdure-callback",)


def signed(
    places: str | None, method: str, url: str, headers: Mapping[str, str], body: bytes, at: int
) -> dict[str, str]:
    """The headers that sign a request; none without a place.

    Args:
        places: where the secrets are: `env:NAME` or `file:/path`, separated by blanks, the newest first.
        url: as it is sent.
        headers: of the request.
        body: of the request; empty where it has none.
        at: seconds since 1970.

    Raises:
        NoSecret: one of the secrets is missing or no `whsec_...`.
    """
    if not places:
        return {}
    digest = "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"  # RFC 9530
    values = {name.lower(): value.strip() for name, value in headers.items()}
    values |= {"@method": method, "@target-uri": _target(url), "content-digest": digest}
    covered = [*_COVERED, *(name for name in _COVERED_IF_SENT if name in values)]
    params = "(" + " ".join(f'"{name}"' for name in covered) + f');created={at};alg="hmac-sha256"'
    base = signature_base(covered, values, params)
    signatures = {f"sig{n}": _mac(secret, base) for n, secret in enumerate(secrets(places), start=1)}
    return {
        "Content-Digest": digest,
        "Signature-Input": ", ".join(f"{label}={params}" for label in signatures),
        "Signature": ", ".join(f"{label}=:{mac}:" for label, mac in signatures.items()),
    }


def signature_base(covered: Sequence[str], values: Mapping[str, str], params: str) -> bytes:
    """The bytes that a signature is made of (RFC 9421, 2.5)."""
    lines = [f'"{name}": {values[name]}' for name in covered]
    return "\n".join([*lines, f'"@signature-params": {params}']).encode()


def secrets(places: str) -> list[bytes]:
    """The secrets at these places, decoded.

    Raises:
        NoSecret: as above.
    """
    return [_decoded(place, text_at(place)) for place in places.split()]


def _target(url: str) -> str:
    """The URL as RFC 9421, 2.2.2 has it: in its normal form, and with the path and query that are sent."""
    parsed = URL(url, encoded=True)
    return f"{parsed.scheme}://{(parsed.host_port_subcomponent or '').lower()}{parsed.raw_path_qs}"


def _mac(secret: bytes, base: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, base, hashlib.sha256)).decode()


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
