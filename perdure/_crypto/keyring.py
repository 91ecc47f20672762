"""`Keyring`: the keys of this process, from PERDURE_KEYS or PERDURE_KEYS_FILE. The first one encrypts, all decrypt.

No message shows a key or an encrypted value. The package `cryptography` is imported when there are keys.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import stat
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from perdure._crypto.service import KeyService, key_service, unwrapped
from perdure.errors import InvalidSetting, UnknownKey, Unopenable

if TYPE_CHECKING:
    from perdure.settings import Settings

KEY_BYTES = 32
"""AES-256."""
NONCE_BYTES = 12
"""NIST SP 800-38D, 8.2.2: random, and no more than 2^32 encryptions with one key."""
KEY_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


class Keyring:
    """AES-256-GCM with several keys, each with an id.

    Args:
        keys: by id; the first one encrypts.

    Raises:
        InvalidSetting: the package `cryptography` is not installed.
    """

    def __init__(self, keys: dict[str, bytes]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise InvalidSetting(
                f"keys need the package cryptography: pip install 'perdure[encryption]' ({error})"
            ) from error
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self.current = next(iter(keys))
        """Id of the key that encrypts."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys."""
        return tuple(self._ciphers)

    def encrypting_with(self, key_id: str) -> Keyring:
        """The same keys, of which another one encrypts."""
        made = copy(self)
        made.current = key_id
        return made

    def encrypt(self, plain: bytes, bound: bytes) -> bytes:
        """Nonce, ciphertext and tag, with the current key. `bound` is authenticated, and is not part of the result."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._ciphers[self.current].encrypt(nonce, plain, bound)

    def decrypt(self, key_id: str, sealed: bytes, bound: bytes) -> bytes:
        """The plain bytes of a text that was encrypted with that key.

        Raises:
            UnknownKey: this keyring does not have the key.
            Unopenable: the text was changed, or another key has that id.
        """
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise UnknownKey(
                f"it is encrypted with the key {key_id!r}, and this process has {', '.join(self.ids)}: "
                f"add {key_id!r} to PERDURE_KEYS"
            )
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
        except (InvalidTag, ValueError) as error:
            raise Unopenable(
                f"the key {key_id!r} does not open it: it was changed, or PERDURE_KEYS has another key of that id"
            ) from error


def keyring(config: Settings) -> Keyring | None:
    """The keys that the settings name; None = none are set.

    Raises:
        InvalidSetting: a key cannot be used. The message names it, and shows no key.
        KeyServiceUnavailable: the keys are wrapped, and the service does not unwrap them.
    """
    given = config.keys.get_secret_value() if config.keys is not None else None
    return _keyring(given, config.keys_file, config.encrypt, config.seal, config.key_service)


def own() -> tuple[Keyring | None, bool]:
    """The keys of this process by its environment, and whether it seals.

    Raises:
        InvalidSetting: as `keyring`.
    """
    names = ("KEYS", "KEYS_FILE", "SEAL", "ENCRYPT", "KEY_SERVICE")
    return _own(*(os.environ.get(f"PERDURE_{name}") for name in names))


@lru_cache(maxsize=8)
def _own(*_: str | None) -> tuple[Keyring | None, bool]:
    from perdure.settings import settings

    config = settings()
    return keyring(config), config.seal


@lru_cache(maxsize=8)
def _keyring(given: str | None, file: str | None, encrypt: bool | None, seal: bool, path: str | None) -> Keyring | None:
    if given is not None and file is not None:
        raise InvalidSetting("PERDURE_KEYS and PERDURE_KEYS_FILE are both set: keep one of them")
    service = key_service(path) if path is not None else None
    if given is not None:
        return Keyring(dict(_parsed("PERDURE_KEYS", given.split(","), ":", service)))
    if file is not None:
        return Keyring(dict(_parsed(f"PERDURE_KEYS_FILE={file!r}", _lines(file), None, service)))
    if seal or encrypt:
        name = "PERDURE_SEAL" if seal else "PERDURE_ENCRYPT"
        raise InvalidSetting(f"{name}=true needs keys: set PERDURE_KEYS; `perdure key` makes one")
    return None


def _lines(file: str) -> list[str]:
    try:
        _check_mode(file)
        lines = Path(file).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not plain ASCII"
        raise InvalidSetting(f"PERDURE_KEYS_FILE={file!r} can't be read: {why}") from None
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _check_mode(file: str) -> None:
    """libpq's rule for private keys (fe-secure-openssl.c): a group may read root's file, such as a mounted secret."""
    found = Path(file).stat()
    forbidden = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if found.st_uid == 0 else stat.S_IRWXG)
    if (mode := stat.S_IMODE(found.st_mode)) & forbidden:
        raise InvalidSetting(
            f"PERDURE_KEYS_FILE={file!r} has mode {mode:04o}, and others than its owner may use it: chmod 600 it"
        )


def _parsed(
    where: str, entries: list[str], separator: str | None, service: KeyService | None
) -> Iterator[tuple[str, bytes]]:
    form = "id:base64, several by comma" if separator else "`id base64`, one a line"
    seen: set[str] = set()
    for number, entry in enumerate(entries, 1):
        key_id, *rest = entry.strip().split(separator, 1)
        if len(rest) != 1 or not re.fullmatch(KEY_ID, key_id):
            raise InvalidSetting(f"{where}: entry {number} is no key: write {form}; `perdure key` makes one")
        if key_id in seen:
            raise InvalidSetting(f"{where}: two keys have the id {key_id!r}: give each key an id of its own")
        seen.add(key_id)
        yield key_id, _key(where, key_id, rest[0].strip(), service)
    if not seen:
        raise InvalidSetting(f"{where}: there is no key in it: write {form}; `perdure key` makes one")


def _key(where: str, key_id: str, text: str, service: KeyService | None) -> bytes:
    try:
        key = unbase64(text)
    except ValueError:
        raise InvalidSetting(f"{where}: the key {key_id!r} is no base64; `perdure key` makes one") from None
    if service is not None:
        key = unwrapped(service, where, key_id, key)
    if len(key) != KEY_BYTES:
        raise InvalidSetting(f"{where}: the key {key_id!r} has {len(key)} bytes, and needs {KEY_BYTES}")
    return key


def unbase64(text: str) -> bytes:
    """Of base64 or base64url (RFC 4648, 4 and 5), padded or not. Raises ValueError."""
    try:
        plain = text.rstrip("=").translate(str.maketrans("-_", "+/")).encode("ascii")
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("no base64") from error
