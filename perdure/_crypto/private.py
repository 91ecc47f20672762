"""`Private`: a text that nothing shows, and that may be sealed for its entity and its field: a phone number, a message.

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
from perdure.contracts.keys import Entity
from perdure.errors import NotHere, UnknownKey, Unopenable

if TYPE_CHECKING:  # an app that only starts lifecycles imports `pydantic_core` alone
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter

SEALING: dict[str, Any] = {"perdure.seal": True}
"""Context for `dump_python`: what is dumped comes from outside, so it is sealed, once. What is carried on is not."""

CHECKING: dict[str, Any] = {"perdure.check": True}
"""Context for `validate_python`: what is sealed in it has to open for the entity of `bound_to`, if the key is here."""

_NAMED: ContextVar[str | None] = ContextVar("perdure_private_as", default=None)


class Private:
    """A text that neither `repr`, `str`, logs nor errors show; a field type of Pydantic.

    A model that validates it gives it the name of its field. From then on it belongs to that field: a model refuses it
    in a field of another name, unless `PrivateAs` gives both fields one name.

    Two are equal if they hold the same: a plain text and the same one sealed are not.

    Args:
        text: as it came: plain, or sealed.

    Raises:
        ValueError: it says that it is sealed, and is malformed.

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
        """Whether it holds ciphertext."""
        return self._text.startswith(MARK)

    def open(self, entity: Entity | None = None, field: str | None = None) -> str:
        """The plain text, by the keys of PERDURE_KEYS or PERDURE_KEYS_FILE in this process's environment.

        Args:
            entity: whose text it is. None = in the body of an effect, look-up or step, its own entity.
            field: which field's text it is, where no model has read it. None = any field's.

        Raises:
            NotHere: in workflow code: what it sees stands in its history, and it must do the same without the key. Or
                it is sealed, and no entity is given outside of a body.
            UnknownKey: this process does not have the key; the message names its id.
            Unopenable: it was sealed for another entity or field, it was changed, or it is not of the form that its
                field asks for.
        """
        _not_in_a_workflow("open")
        if field is not None and self._field not in (None, field):
            raise Unopenable(f"it is of the field {self._field!r}, not {field!r}")
        plain = self._opened(entity) if self.sealed else self._text
        if self._fits is not None and not self._fits.matches(plain):
            raise Unopenable(f"the text inside is not of the form that its field asks for: {self._fits.regex}")
        return plain

    def seal(self, entity: Entity | None = None, field: str | None = None) -> Private:
        """The same, sealed with the first key, where PERDURE_SEAL is on; what is sealed stays as it is.

        Args:
            entity: for whom. None = in the body of an effect, look-up or step, its own entity.
            field: the name of the field of the model that will read it. None = the field that it was read from; if
                no model has read it, it can be put in any field of the entity.

        Raises:
            NotHere: in workflow code: each time it would come out different. Or no entity is given outside of a body.
            InvalidSetting: PERDURE_SEAL is on, and there are no keys, or they can't be used.
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
        """The same as the value of a field. Raises PydanticCustomError: it is another field's."""
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
        """See Pydantic, whose errors quote what a step was given: so the first one hides it, and the second refuses."""
        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(_Hidden),
                core_schema.with_info_plain_validator_function(_validated),
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
class PrivateAs:
    """The name of the field that a `Private` belongs to, where that is not the name in its model.

    A workflow can't open a `Private`, so a value that it puts from one model into another must have one name in both:
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
        checked._field, checked._fits = given._field, self
        return checked


def sealed_data(adapter: TypeAdapter[Any], given: Any) -> Any:
    """`given` as JSON data, checked, and sealed for the entity of `bound_to`; what came sealed has to open for it.

    Raises:
        ValidationError: it does not fit, or a text in it was sealed for another entity or field.
    """
    data = adapter.dump_python(adapter.validate_python(given), mode="json", context=SEALING)
    if MARK in (text := json.dumps(data)):  # Pydantic does not look into the instance of a model
        adapter.validate_json(text, context=CHECKING)
    return data


class _Hidden:
    """What was given, until it is known to be good."""

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
