"""`describe` and `describe_invalid` show enough of an error to find it, and quote no data."""

from __future__ import annotations

import smtplib
import socket
import traceback
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import asyncpg
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Tag,
    TypeAdapter,
    ValidationError,
    field_serializer,
    field_validator,
)

from perdure._text.privacy import describe, describe_invalid, format_error
from perdure.client.calls import as_json
from perdure.errors import InvalidInput, NotNow

ADDRESS = "ann@example.org"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (OSError(5, ADDRESS, ADDRESS), "OSError: Input/output error"),
        (ConnectionRefusedError(111, ADDRESS), "ConnectionRefusedError: Connection refused"),
        (OSError(ADDRESS), "OSError"),
        (TimeoutError(ADDRESS), "TimeoutError"),
        (smtplib.SMTPRecipientsRefused({ADDRESS: (550, b"no")}), "SMTPRecipientsRefused"),
        (type("RequestException", (OSError,), {})(5, ADDRESS), "RequestException"),
        (socket.gaierror(socket.EAI_NONAME, ADDRESS), "gaierror: EAI_NONAME"),
        (NotNow("it is still open"), "NotNow: it is still open"),
        (type("Theirs", (NotNow,), {"__module__": "shop"})(ADDRESS), "Theirs"),
        (asyncpg.DataError(f"invalid input for query argument $1: '{ADDRESS}'"), "DataError (SQLSTATE 22000)"),
        (asyncpg.InterfaceError("connection is closed"), "InterfaceError: connection is closed"),
        (asyncpg.LockNotAvailableError("canceling statement"), "LockNotAvailableError: canceling statement"),
        (asyncpg.RaiseError(ADDRESS), "RaiseError (SQLSTATE P0001)"),
        (asyncpg.CheckViolationError(ADDRESS), "CheckViolationError (SQLSTATE 23514)"),
    ],
)
def test_of_an_error_only_what_quotes_no_data_is_shown(error: Exception, shown: str) -> None:
    assert describe(error) == shown


def test_a_traceback_shows_lines_and_causes_without_their_messages() -> None:
    try:
        try:
            raise KeyError(ADDRESS)
        except KeyError as cause:
            raise ExceptionGroup(ADDRESS, [ValueError(ADDRESS)]) from cause
    except ExceptionGroup as error:
        shown = format_error(error)
    assert ADDRESS not in shown
    assert shown.index("KeyError at test_privacy.py:") < shown.index("ExceptionGroup at test_privacy.py:")
    assert shown.endswith("\n  ValueError")
    assert "raise KeyError(ADDRESS)" in shown


class Colour(StrEnum):
    RED = "red"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int = 1
    checked: str = "x"
    colour: Colour = Colour.RED
    choice: Literal["a", "b"] = "a"
    names: dict[str, int] = {}
    id: UUID = UUID(int=0)

    @field_validator("checked")
    @classmethod
    def check(cls, value: str) -> str:
        if "@" in value:
            raise ValueError(f"{value} is an address")
        return value


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"number": ADDRESS}, "number: Input should be a valid integer, unable to parse string as an integer"),
        ({"colour": ADDRESS}, "colour: Input should be 'red'"),
        ({"choice": ADDRESS}, "choice: Input should be 'a' or 'b'"),
        ({"checked": ADDRESS}, "checked: value error"),
        ({"names": {ADDRESS: "x"}}, "names.*: Input should be a valid integer, unable to parse string as an integer"),
        ({ADDRESS: 1}, "*: Extra inputs are not permitted"),
        ({"id": ADDRESS}, "id: uuid parsing"),
    ],
)
def test_an_input_that_does_not_fit_is_described_by_its_place_and_by_what_is_expected(given: Any, shown: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(given)
    assert describe_invalid(caught.value) == shown


def test_the_tag_of_a_union_is_not_quoted() -> None:
    one = Annotated[int, Tag("one")] | Annotated[str, Tag("other")]
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[one, Discriminator(lambda value: value)])
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(ADDRESS)
    assert describe_invalid(caught.value) == "the whole: union tag invalid"


def test_an_input_that_its_own_serializer_refuses_is_refused_without_the_text_of_that() -> None:
    class Caller(BaseModel):
        phone: str

        @field_serializer("phone")
        def _shown(self, phone: str) -> str:
            raise ValueError(f"{phone} is no number")

    with pytest.raises(InvalidInput) as refused:
        as_json("order/1", "input", Caller(phone=ADDRESS))
    assert str(refused.value) == "order/1: the input is no JSON: Error calling function `_shown`: ValueError"
    assert ADDRESS not in "".join(traceback.format_exception(refused.value))
