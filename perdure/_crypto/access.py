"""Access to the codec server, by a token of its own or by a JWT that an identity provider has signed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from perdure.errors import InvalidSetting

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Only algorithms with a public key. With a shared key (HS256), a server that can check a token can make one."""
LONGEST = 16_384
"""Bytes of a token."""
_LINE = re.compile(r"(?P<name>[A-Za-z0-9][\w.@-]{0,63})\s+sha256:(?P<digest>[0-9a-f]{64})")
_FETCH = 5.0
_AWAY = 10.0


class Access(ABC):
    """One way to authenticate a request."""

    @abstractmethod
    async def name(self, token: str) -> str | None:
        """The name of the bearer, for the log; None = unknown."""


class Tokens(Access):
    """The server's own tokens, of which only the SHA-256 is kept. They are random, so a fast hash suffices.

    Args:
        digests: by the name of the bearer, in hex.
    """

    def __init__(self, digests: dict[str, str]) -> None:
        self._digests = digests

    @classmethod
    def from_file(cls, file: Path) -> Tokens:
        """One `name sha256:hex` a line, as `perdure codec-token` prints it; `#` begins a comment.

        Raises:
            InvalidSetting: the file cannot be read, or a line is not of this form.
        """
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise InvalidSetting(f"--tokens {file} can't be read: {why}") from None
        digests: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            found = _LINE.fullmatch(line.strip())
            if found is None or found["name"] in digests:
                raise InvalidSetting(f"--tokens {file}: line {number} is no new `name sha256:hex`: perdure codec-token")
            digests[found["name"]] = found["digest"]
        if not digests:
            raise InvalidSetting(f"--tokens {file}: there is no token in it; `perdure codec-token` makes one")
        return cls(digests)

    async def name(self, token: str) -> str | None:
        """See base class. All tokens are compared, each in constant time."""
        given = hashlib.sha256(token.encode()).hexdigest()
        found = [name for name, digest in self._digests.items() if hmac.compare_digest(digest, given)]
        return found[0] if found else None


def new_token() -> tuple[str, str]:
    """A token of 256 random bits, and its digest."""
    token = secrets.token_urlsafe(32)
    return token, f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def line_of(name: str, digest: str) -> str:
    """The line for a token in the file of `Tokens.from_file`.

    Raises:
        InvalidSetting: the name cannot stand in it.
    """
    line = f"{name} {digest}"
    if _LINE.fullmatch(line) is None:
        raise InvalidSetting(f"{name!r} can't be the name of a bearer: write 1 to 64 letters, digits and _.@-")
    return line


@dataclass
class Signed(Access):
    """JWTs (RFC 7519) that an identity provider has signed, with a key from its JWKS.

    Args:
        jwks: URL of the provider's keys (RFC 7517); HTTPS, except on this machine.
        audience: `aud` must equal or contain it.
        issuer: `iss` must equal it.
        claims: further claims that a token must have. A claim that is a list must contain the value.

    Raises:
        InvalidSetting: the URL cannot be used, or the package PyJWT is not installed.
    """

    jwks: str
    audience: str
    issuer: str
    claims: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            import jwt
        except ImportError as error:
            raise InvalidSetting(
                f"--jwks needs the package PyJWT: pip install 'perdure[encryption]' ({error})"
            ) from error
        url = urlsplit(self.jwks)
        here = url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost", "::1")
        if not url.hostname or not (url.scheme == "https" or here):
            raise InvalidSetting(f"--jwks {self.jwks!r} must be an https:// URL: who changes keys on the way is let in")
        self._keys = jwt.PyJWKClient(self.jwks, timeout=_FETCH)
        self._one = asyncio.Lock()
        self._away_until = 0.0

    async def name(self, token: str) -> str | None:
        """See base class."""
        import jwt

        try:
            kid = jwt.get_unverified_header(token).get("kid")
            if not isinstance(kid, str) or (key := await self._key(kid)) is None:
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self.audience,
                issuer=self.issuer,
                options={"require": ["exp", "aud", "iss"]},
                leeway=5,
            )
        except jwt.PyJWTError:
            return None
        if not all(_has(claims.get(name), value) for name, value in self.claims.items()):
            return None
        return _printable(claims.get("sub") or "a bearer without sub")

    async def _key(self, kid: str) -> Any:
        """The provider's key; None = the provider has no key of that id, or does not answer.

        Strangers must not be able to cause many requests to the provider, or to lock out others while it is away.
        """
        import jwt

        async with self._one:
            if time.monotonic() < self._away_until:
                return self._known(kid)
            try:
                return await asyncio.to_thread(self._keys.get_signing_key, kid)
            except jwt.PyJWKClientConnectionError:
                self._away_until = time.monotonic() + _AWAY
                return None
            except jwt.PyJWTError:
                return None

    def _known(self, kid: str) -> Any:
        """The key, as the provider answered a short time ago."""
        keys = self._keys.jwk_set_cache.get() if self._keys.jwk_set_cache is not None else None
        return None if keys is None else self._keys.match_kid(keys.keys, kid)


def _printable(name: object) -> str:
    return "".join(each for each in str(name) if each.isprintable())[:100]


def _has(claim: object, value: str) -> bool:
    return value in claim if isinstance(claim, list) else claim == value
