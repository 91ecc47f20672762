"""A sealed text: `perdure-sealed:2:<key id>:<field>:<base64url>`. It opens only for its entity, and in its field.

The base64url is, without padding, a nonce of 12 bytes, the text in UTF-8 by AES-256-GCM, and its tag of 16 bytes. The
authenticated data are the part before the last colon, a colon, and `<lifecycle>/<entity id>`, which the text does not
show. The field is percent-encoded, and empty if it is unknown. docs/encryption.md has a test vector.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote, unquote

from perdure._crypto import keyring
from perdure.contracts.keys import Entity
from perdure.errors import UnknownKey, Unopenable

MARK = "perdure-sealed:"
_FORM = re.compile(rf"{MARK}2:(?P<key>{keyring.KEY_ID}):(?P<field>[A-Za-z0-9_.~%-]*):(?P<data>[A-Za-z0-9_-]+)")
_LEAST = keyring.NONCE_BYTES + 16
_ENTITY: ContextVar[Entity | None] = ContextVar("perdure_sealed_for", default=None)


@contextmanager
def bound_to(entity: Entity) -> Iterator[None]:
    """Seal and open texts for this entity until the end of the context, unless the caller names another one."""
    before = _ENTITY.set(entity)
    try:
        yield
    finally:
        _ENTITY.reset(before)


def bound_entity() -> Entity | None:
    """The entity of `bound_to`; None outside of it."""
    return _ENTITY.get()


def seal(plain: str, keys: keyring.Keyring, entity: Entity, field: str | None = None) -> str:
    """`plain`, sealed for the entity and the field; None = any field of the entity."""
    head = f"{MARK}2:{keys.current}:{quote(field or '', safe='')}"
    return f"{head}:{_base64url(keys.encrypt(plain.encode(), _bound(head, entity)))}"


def unseal(text: str, keys: keyring.Keyring, entity: Entity) -> str:
    """The plain text of a text that was sealed for the entity.

    Raises:
        ValueError: the text is malformed.
        UnknownKey: the keyring does not have the key; the message names its id.
        Unopenable: the text was sealed for another entity, or was changed.
    """
    key_id, data = _parts(text)
    try:
        return keys.decrypt(key_id, data, _bound(text.rpartition(":")[0], entity)).decode()
    except UnknownKey:
        raise
    except Unopenable:
        raise Unopenable(
            f"the key {key_id!r} does not open it for {entity.lifecycle}/{entity.id}: it was sealed for another "
            "entity, it was changed, or PERDURE_KEYS has another key of that id"
        ) from None
    except UnicodeDecodeError:
        raise Unopenable(f"what the key {key_id!r} opens is no UTF-8") from None


def field_of(text: str) -> str | None:
    """The field that a text was sealed for; None = any field. Raises ValueError if the text is malformed."""
    _parts(text)
    return unquote(text.split(":")[3]) or None


def _parts(text: str) -> tuple[str, bytes]:
    found = _FORM.fullmatch(text)
    data = keyring.unbase64(found["data"]) if found and len(found["data"]) % 4 != 1 else b""
    if found is None or len(data) < _LEAST or _base64url(data) != found["data"]:
        raise ValueError(f"a text that begins with {MARK!r} must go on with 2:<key id>:<field>:<base64url>")
    return found["key"], data


def _bound(head: str, entity: Entity) -> bytes:
    return f"{head}:{entity.lifecycle}/{entity.id}".encode()


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
