"""`Private`: a text that nothing shows, and that may be sealed: a phone number, a message.

As JSON it is a string: the plain text, or `perdure-sealed:1:<key id>:<base64url>`, where the base64url is, without
padding, a nonce of 12 bytes, the text in UTF-8 by AES-256-GCM, and its tag of 16 bytes. What stands before the last
colon is authenticated with it. docs/encryption.md has a test vector.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, SchemaSerializer, core_schema

from perdure.encryption import keyring
from perdure.errors import NotHere, UnknownKey, Unopenable

MARK = "perdure-sealed:"
SEALING: dict[str, Any] = {"perdure.seal": True}
"""Context for `dump_python`: what is dumped comes from outside, so it is sealed, once. What is carried on is not."""

_SEALED = re.compile(rf"{MARK}1:(?P<key>{keyring.KEY_ID}):(?P<sealed>[A-Za-z0-9_-]+)")
_LEAST = keyring.NONCE_BYTES + 16


class Private:
    """A text that neither `repr`, `str`, logs nor errors show; a field type of Pydantic.

    Two are equal if they hold the same: a plain text and the same one sealed are not.

    Args:
        text: as it came: plain, or sealed.

    Raises:
        ValueError: it says that it is sealed, and is malformed.
    """

    __slots__ = ("_fits", "_text")
    __pydantic_serializer__: Any

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"Private takes a str, not {type(text).__name__}")
        if text.startswith(MARK):
            _parts(text)
        self._text = text
        self._fits: PrivatePattern | None = None

    @property
    def sealed(self) -> bool:
        """Whether it holds ciphertext."""
        return self._text.startswith(MARK)

    def open(self) -> str:
        """The plain text, by the keys of PERDURE_KEYS or PERDURE_KEYS_FILE in this process's environment.

        Raises:
            NotHere: in workflow code: what it sees stands in its history, and it must do the same without the key.
            UnknownKey: this process does not have the key; the message names its id.
            Unopenable: it was changed, or is not of the form that its field asks for.
        """
        _not_in_a_workflow("open")
        plain = self._opened() if self.sealed else self._text
        if self._fits is not None and not self._fits.matches(plain):
            raise Unopenable(f"the text inside is not of the form that its field asks for: {self._fits.regex}")
        return plain

    def seal(self) -> Private:
        """The same, sealed with the first key, where PERDURE_SEAL is on; what is sealed stays as it is.

        Raises:
            NotHere: in workflow code: each time it would come out different.
            InvalidSetting: PERDURE_SEAL is on, and there are no keys, or they can't be used.
        """
        _not_in_a_workflow("seal")
        keys, sealing = keyring.own()
        if self.sealed or keys is None or not sealing:
            return self
        return self._with(sealed(self._text, keys))

    def _opened(self) -> str:
        keys, _ = keyring.own()
        if keys is None:
            raise UnknownKey("it is sealed, and this process has no keys: set PERDURE_KEYS or PERDURE_KEYS_FILE")
        return unsealed(self._text, keys)

    def _with(self, text: str) -> Private:
        made = Private(text)
        made._fits = self._fits
        return made

    def __repr__(self) -> str:
        return "Private(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Private) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """See Pydantic, whose errors quote what a step was given: so the first one hides it, and the second refuses."""
        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(_Hidden),
                core_schema.no_info_plain_validator_function(_validated),
            ],
            serialization=core_schema.plain_serializer_function_ser_schema(
                _serialized, info_arg=True, when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """See Pydantic."""
        return {"type": "string"}


@dataclass(frozen=True)
class PrivatePattern:
    r"""What the whole of a `Private` must look like: `Annotated[Private, PrivatePattern(r"\+[1-9]\d{6,14}")]`.

    A plain text is checked when it is validated, a sealed one when it is opened. No message shows it.
    """

    regex: str

    def matches(self, plain: str) -> bool:
        """Whether all of `plain` does."""
        return re.fullmatch(self.regex, plain) is not None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """See Pydantic."""
        inner = handler(source)
        check = core_schema.no_info_plain_validator_function(self._checked)
        return core_schema.chain_schema([inner, check], serialization=inner.get("serialization"))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """See Pydantic."""
        return {"type": "string"}

    def _checked(self, given: Any) -> Any:
        if not isinstance(given, Private):  # None, where the field may be that
            return given
        if not given.sealed and not self.matches(given._text):
            raise PydanticCustomError("private_pattern", "does not match {regex}", {"regex": self.regex})
        checked = Private(given._text)
        checked._fits = self
        return checked


def sealed(plain: str, keys: keyring.Keyring) -> str:
    """`plain` in the form that `Private` holds."""
    head = f"{MARK}1:{keys.current}"
    return f"{head}:{_base64url(keys.encrypt(plain.encode(), head.encode()))}"


def unsealed(text: str, keys: keyring.Keyring) -> str:
    """The plain text of a sealed one.

    Raises:
        ValueError: it is malformed.
        UnknownKey, Unopenable: as `Private.open`.
    """
    key_id, data = _parts(text)
    try:
        return keys.decrypt(key_id, data, text.rpartition(":")[0].encode()).decode()
    except UnicodeDecodeError:
        raise Unopenable(f"what the key {key_id!r} opens is no UTF-8") from None


def _parts(text: str) -> tuple[str, bytes]:
    found = _SEALED.fullmatch(text)
    data = keyring.unbase64(found["sealed"]) if found and len(found["sealed"]) % 4 != 1 else b""
    if found is None or len(data) < _LEAST or _base64url(data) != found["sealed"]:
        raise ValueError(f"a text that begins with {MARK!r} must go on with 1:<key id>:<base64url>")
    return found["key"], data


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Hidden:
    """What was given, until it is known to be good."""

    __slots__ = ("given",)

    def __init__(self, given: Any) -> None:
        self.given = given

    def __repr__(self) -> str:
        return "..."


def _validated(hidden: _Hidden) -> Private:
    given = hidden.given
    if isinstance(given, Private):
        return given
    if not isinstance(given, str):
        raise PydanticKnownError("string_type")
    try:
        return Private(given)
    except ValueError as error:
        raise PydanticCustomError("private_sealed", "{why}", {"why": str(error)}) from None


def _serialized(value: Private, info: core_schema.SerializationInfo) -> str:
    sealing = isinstance(info.context, Mapping) and info.context.get("perdure.seal")
    return (value.seal() if sealing else value)._text


def _not_in_a_workflow(what: str) -> None:
    from temporalio import workflow

    if workflow.in_workflow():
        raise NotHere(f"a workflow can't {what} a Private: do it in an effect's body, or before it is given to one")


Private.__pydantic_serializer__ = SchemaSerializer(Private.__get_pydantic_core_schema__(Private, None))  # type: ignore[arg-type]
