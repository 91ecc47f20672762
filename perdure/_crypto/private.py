"""`Private`: a text that nothing shows, such as a phone number. It may be sealed for its entity and its field.

As JSON it is a string: the plain text, or the sealed one (`perdure._crypto.sealed`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, SchemaSerializer, core_schema

from perdure._crypto import keyring
from perdure._crypto.sealed import MARK, bound_entity, field_of, seal, unseal
from perdure.contracts.dumping import dump
from perdure.contracts.input_types import PRIVATE
from perdure.contracts.keys import Entity
from perdure.errors import NotHere, UnknownKey, Unopenable

if TYPE_CHECKING:  # an app that only starts lifecycles imports `pydantic_core` alone
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter

SEALING: dict[str, Any] = {"perdure.seal": True}
"""Context for `dump_python` of values from outside, which are sealed, once. Values that are passed on are not."""

CHECKING: dict[str, Any] = {"perdure.check": True}
"""Context for `validate_python`: sealed texts must open for the entity of `bound_to`, if this process has the key."""

_NAMED: ContextVar[str | None] = ContextVar("perdure_private_as", default=None)


class Private:
    """A text that neither `repr`, `str`, logs nor errors show; a field type of Pydantic.

    A model that validates the text gives it the name of its field. A model refuses it in a field of another name,
    unless `PrivateAs` gives both fields one name.

    Two are equal if they hold the same string. A plain text does not equal the same text when it is sealed.

    Args:
        text: the plain text or the sealed one.

    Raises:
        ValueError: the text begins as a sealed one, and is malformed.

    Example:
        >>> Private("+15550100123")
        Private(...)
    """

    __slots__ = ("_field", "_fits", "_text")
    __pydantic_serializer__: Any

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"Private takes a str, not {type(text).__name__}")
        self._field: str | None = field_of(text) if text.startswith(MARK) else None
        self._text = text
        self._fits: PrivatePattern | None = None

    @property
    def sealed(self) -> bool:
        """Whether the text is sealed."""
        return self._text.startswith(MARK)

    def open(self, entity: Entity | None = None, field: str | None = None) -> str:
        """The plain text, by the keys of PERDURE_KEYS or PERDURE_KEYS_FILE in this process's environment.

        Args:
            entity: the entity of the text. None = in the body of an effect, look-up or step, its own entity.
            field: the field of the text, if no model has read it. None = any field.

        Raises:
            NotHere: the caller is workflow code, which must take the same way without the key. Or the text is sealed,
                and no entity is given outside of a body.
            UnknownKey: this process does not have the key; the message names its id.
            Unopenable: the text was sealed for another entity or field, was changed, or does not match the pattern of
                its field.
        """
        _not_in_a_workflow("open")
        if field is not None and self._field not in (None, field):
            raise Unopenable(f"it is of the field {self._field!r}, not {field!r}")
        plain = self._opened(entity) if self.sealed else self._text
        if self._fits is not None and not self._fits.matches(plain):
            raise Unopenable(f"the text inside is not of the form that its field requires: {self._fits.regex}")
        return plain

    def seal(self, entity: Entity | None = None, field: str | None = None) -> Private:
        """The same text, sealed with the first key if PERDURE_SEAL is on. A sealed text stays unchanged.

        Args:
            entity: the entity that the text is for. None = in the body of an effect, look-up or step, its own entity.
            field: the name of the field of the model that will read the text. None = the field from which it was read;
                if no model has read it, any field of the entity.

        Raises:
            NotHere: the caller is workflow code, in which each replay would seal differently. Or no entity is given
                outside of a body.
            InvalidSetting: PERDURE_SEAL is on, and there are no keys, or they cannot be used.
        """
        _not_in_a_workflow("seal")
        if self.sealed:
            return self
        whose = _entity("seal", entity)
        keys, sealing = keyring.own()
        if keys is None or not sealing:
            return self
        made = Private(seal(self._text, keys, whose, field or self._field))
        made._fits = self._fits
        return made

    def _opened(self, entity: Entity | None) -> str:
        keys, _ = keyring.own()
        if keys is None:
            raise UnknownKey("it is sealed, and this process has no keys: set PERDURE_KEYS or PERDURE_KEYS_FILE")
        return unseal(self._text, keys, _entity("open", entity))

    def _in(self, field: str | None) -> Private:
        """The same text as the value of a field. Raises PydanticCustomError if it belongs to another field."""
        if field is not None and self._field not in (None, field):
            why = "it is a Private of the field {other}: open it and make a new one, or give both fields one PrivateAs"
            raise PydanticCustomError("private_field", why, {"other": repr(self._field)})
        made = Private(self._text)
        made._field, made._fits = field or self._field, self._fits
        return made

    def _check(self) -> None:
        try:
            self._opened(None)
        except UnknownKey:  # another process may have the key
            pass
        except Unopenable as error:
            raise PydanticCustomError("private_unopenable", "{why}", {"why": str(error)}) from None

    def __repr__(self) -> str:
        return "Private(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Private) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """See Pydantic. Its errors quote a step's input, so the first step hides the input and the second refuses."""
        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(_Hidden),
                core_schema.with_info_plain_validator_function(_validated),
            ],
            serialization=core_schema.plain_serializer_function_ser_schema(
                _serialized, info_arg=True, when_used="json"
            ),
            metadata={PRIVATE: True},
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """See Pydantic."""
        return {"type": "string"}


@dataclass(frozen=True)
class PrivateAs:
    """The name of the field of a `Private`, if that differs from the name in its model.

    A workflow cannot open a `Private`, so a value that it copies between models must have one name in both:
    `customer_phone: Annotated[Private, PrivateAs("to")]` can be given to an effect whose input has the field `to`.
    """

    field: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """See Pydantic."""
        inner = handler(source)
        return core_schema.no_info_wrap_validator_function(self._named, inner)

    def _named(self, given: Any, validate: core_schema.ValidatorFunctionWrapHandler) -> Any:
        before = _NAMED.set(self.field)
        try:
            return validate(given)
        finally:
            _NAMED.reset(before)


@dataclass(frozen=True)
class PrivatePattern:
    r"""A pattern that the whole of a `Private` must match: `Annotated[Private, PrivatePattern(r"\+[1-9]\d{6,14}")]`.

    A plain text is checked when it is validated, a sealed one when it is opened. No message shows it.
    """

    regex: str

    def matches(self, plain: str) -> bool:
        """Whether all of `plain` matches."""
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
        checked._field, checked._fits = given._field, self
        return checked


def sealed_data(adapter: TypeAdapter[Any], value: Any) -> Any:
    """A validated value as JSON data, sealed for the entity of `bound_to`, for which sealed texts must open.

    Raises:
        ValidationError: a text in it was sealed for another entity or field.
        InvalidInput: JSON does not have one of its numbers.
    """
    data = dump(adapter.serializer, value, reader=adapter, context=SEALING)
    if MARK in (text := json.dumps(data)):  # Pydantic does not validate the instance of a model again
        adapter.validate_json(text, context=CHECKING)
    return data


class _Hidden:
    """The input, until it is validated."""

    __slots__ = ("given",)

    def __init__(self, given: Any) -> None:
        self.given = given

    def __repr__(self) -> str:
        return "..."


def _validated(hidden: _Hidden, info: core_schema.ValidationInfo) -> Private:
    given, field = hidden.given, _NAMED.get() or info.field_name
    if not isinstance(given, Private | str):
        raise PydanticKnownError("string_type")
    try:
        found = given if isinstance(given, Private) else Private(given)
    except ValueError as error:
        raise PydanticCustomError("private_sealed", "{why}", {"why": str(error)}) from None
    made = found._in(field)
    if made.sealed and _flag(info, "perdure.check"):
        made._check()
    return made


def _serialized(value: Private, info: core_schema.SerializationInfo) -> str:
    return (value.seal() if _flag(info, "perdure.seal") else value)._text


def _flag(info: core_schema.ValidationInfo | core_schema.SerializationInfo, name: str) -> bool:
    return isinstance(info.context, Mapping) and bool(info.context.get(name))


def _entity(what: str, given: Entity | None) -> Entity:
    entity = given or bound_entity()
    if entity is None:
        raise NotHere(f"{what} needs the entity here: give Entity(lifecycle, id), as only a body has one of its own")
    return entity


def _not_in_a_workflow(what: str) -> None:
    from temporalio import workflow

    if workflow.in_workflow():
        raise NotHere(f"a workflow can't {what} a Private: do it in an effect's body, or before it is given to one")


Private.__pydantic_serializer__ = SchemaSerializer(Private.__get_pydantic_core_schema__(Private, None))  # type: ignore[arg-type]
