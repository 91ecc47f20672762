"""A password as PostgreSQL keeps it (RFC 5802, RFC 7677). Sent in its place, the password itself reaches no log."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64encode

_ITERATIONS = 4096
"""As PostgreSQL's `scram_iterations`; the passwords here are long and random."""


def verifier(password: str, salt: bytes | None = None) -> str:
    """For `create role ... password '...'`: PostgreSQL keeps it as it is.

    Args:
        password: ASCII, which SASLprep (RFC 4013) leaves alone.
        salt: default: a new one.

    Example:
        >>> verifier("pencil", b"0123456789abcdef")[:49]
        'SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$nQpbZ'
    """
    assert password.isascii()
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (b64encode(each).decode() for each in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt64}${stored64}:{server64}"
