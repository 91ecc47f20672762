"""A `Private` shows nothing, is sealed once, and opens with the keys of its process."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from temporalio import workflow

from perdure import Entity
from perdure._crypto.private import SEALING, sealed_data
from perdure._crypto.sealed import bound_to
from perdure.client.calls import as_json
from perdure.client.naming import input_text
from perdure.contracts.effects import first_problem
from perdure.encryption import Private, PrivateAs, PrivatePattern
from perdure.errors import InvalidSetting, NotHere, UnknownKey, Unopenable

PHONE = "+15550100123"
A, B = "a:" + "QUFB" * 10 + "QUE=", "b:" + "QkJC" * 10 + "QkI="
VECTOR = "perdure-sealed:2:a:phone:AAECAwQFBgcICQoLZZzDBOPGuxNeVbDGqw7kNlwyhMHfk3Oh0XfmNA"
JO, AL = Entity("dosage-reminders", "jo"), Entity("dosage-reminders", "al")
Phone = Annotated[Private, PrivatePattern(r"\+[1-9]\d{6,14}")]


class Note(BaseModel):
    """A text to somebody."""

    to: Phone
    text: Private = Private("")


@dataclass
class Card:
    """The same as a dataclass."""

    to: Private


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the keys of this process, and whether it seals."""

    def put(*given: str, seal: bool = True) -> None:
        monkeypatch.setenv("PERDURE_KEYS", ",".join(given))
        monkeypatch.setenv("PERDURE_SEAL", str(seal))

    return put


def test_nothing_that_is_printed_logged_or_raised_shows_what_it_holds(caplog: pytest.LogCaptureFixture) -> None:
    note = Note(to=Private(PHONE))
    logging.getLogger("t").warning("%s %r %s", note.to, note.to, note)
    shown = [repr(note), str(note.to), f"{note.to}", f"{note.to!r:>20}", repr(Card(note.to)), caplog.text, repr([note])]
    with pytest.raises(TypeError) as error:
        json.dumps(note.to)
    assert not [each for each in [*shown, str(error.value)] if PHONE in each]
    assert not hasattr(note.to, "__dict__")


@pytest.mark.parametrize("wrong", [555010, "5550100", ["+15550100"], "perdure-sealed:2:a::short", "perdure-sealed:1:x"])
def test_a_value_that_does_not_fit_is_refused_without_being_shown(wrong: Any) -> None:
    with pytest.raises(ValidationError) as error:
        Note.model_validate({"to": wrong})
    assert str(wrong) not in str(error.value) + str(error.value.errors())
    assert str(wrong) not in first_problem(error.value)
    assert first_problem(error.value).startswith("to: ")


def test_as_json_it_is_the_string_that_it_was() -> None:
    note = Note(to=Private(PHONE), text=Private("hello"))
    assert note.model_dump(mode="json") == {"to": PHONE, "text": "hello"}
    assert Note.model_validate_json(note.model_dump_json()) == note
    schema = Note.model_json_schema()["properties"]
    assert (schema["to"]["type"], schema["text"]["type"]) == ("string", "string")
    assert to_jsonable_python({"any": note.to}) == {"any": PHONE}


@pytest.mark.parametrize("kind", [Phone | None, Annotated[Private | None, PrivatePattern(r"\+[1-9]\d{6,14}")]])
def test_an_optional_private_field_may_be_missing(kind: Any, keys: Callable[..., None]) -> None:
    keys(A)
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    assert adapter.validate_json("null") is None
    assert adapter.dump_python(None, mode="json") is None
    with bound_to(JO):
        sealed = adapter.dump_python(adapter.validate_python(PHONE), mode="json", context=SEALING)
    assert sealed.startswith("perdure-sealed:2:a::")
    with pytest.raises(ValidationError):
        adapter.validate_python("555")


def test_two_are_equal_if_they_hold_the_same() -> None:
    assert Private(PHONE) == Private(PHONE) != Private("x")
    assert len({Private(PHONE), Private(PHONE)}) == 1
    assert Private(PHONE) != PHONE
    assert copy.deepcopy(Private(PHONE)) == pickle.loads(pickle.dumps(Private(PHONE))) == Private(PHONE)


def test_without_keys_it_opens_to_what_it_is_and_seals_to_itself() -> None:
    assert Private(PHONE).open() == PHONE
    assert Private(PHONE).seal(JO) == Private(PHONE)


def test_sealed_it_holds_ciphertext_that_its_key_opens(keys: Callable[..., None]) -> None:
    keys(A)
    sealed = Private(PHONE).seal(JO, "phone")
    assert sealed.sealed
    text = TypeAdapter(Private).dump_python(sealed, mode="json")
    assert text.startswith("perdure-sealed:2:a:phone:")
    assert PHONE not in text
    assert Private(text).open(JO) == Private(text).open(JO, "phone") == PHONE


def test_a_sealed_value_does_not_change_with_the_keys(keys: Callable[..., None]) -> None:
    keys(A)
    sealed = Private(PHONE).seal(JO)
    keys(B, A)
    assert sealed.seal(JO) == sealed
    assert sealed.open(JO) == PHONE
    assert "sealed:2:b:" in as_json("e", "input", Private(PHONE).seal(JO))


def test_the_same_text_is_sealed_differently_each_time(keys: Callable[..., None]) -> None:
    keys(A)
    assert Private(PHONE).seal(JO) != Private(PHONE).seal(JO)


def test_a_private_value_is_sealed_only_if_the_setting_is_on(keys: Callable[..., None]) -> None:
    keys(A, seal=False)
    assert Private(PHONE).seal(JO) == Private(PHONE)


def test_to_seal_without_keys_is_an_error_and_not_a_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SEAL", "true")
    with pytest.raises(InvalidSetting, match="PERDURE_SEAL=true needs keys"):
        Private(PHONE).seal(JO)


def test_a_value_from_outside_is_sealed_and_a_sealed_one_is_passed_on(keys: Callable[..., None]) -> None:
    keys(A)
    note = TypeAdapter(Note).validate_python({"to": PHONE, "text": "hello"})
    assert TypeAdapter(Note).dump_python(note, mode="json") == {"to": PHONE, "text": "hello"}
    with bound_to(JO):
        sealed = TypeAdapter(Note).dump_python(note, mode="json", context=SEALING)
        again = TypeAdapter(Note).dump_python(Note.model_validate(sealed), mode="json", context=SEALING)
    assert sealed["to"].startswith("perdure-sealed:2:a:to:")
    assert again == sealed


@pytest.mark.parametrize("given", [Note(to=Private(PHONE)), Card(Private(PHONE)), {"to": [Private(PHONE)]}])
def test_a_client_seals_in_whatever_it_is_given(keys: Callable[..., None], given: Any) -> None:
    keys(A)
    text = input_text(JO, None, given)
    assert "perdure-sealed:2:a:" in text
    assert PHONE not in text


def test_a_key_that_is_not_here_is_named(keys: Callable[..., None]) -> None:
    keys(A)
    sealed = Private(PHONE).seal(JO)
    keys(B)
    with pytest.raises(UnknownKey, match="with the key 'a', and this process has b"):
        sealed.open(JO)


def test_another_key_of_the_same_id_does_not_open_it(keys: Callable[..., None]) -> None:
    keys(A)
    sealed = Private(PHONE).seal(JO)
    keys("a:" + B[2:])
    with pytest.raises(Unopenable, match="the key 'a' does not open it") as error:
        sealed.open(JO)
    assert not isinstance(error.value, UnknownKey)


@pytest.mark.parametrize("place", [len("perdure-sealed:2:a:phone:"), -1], ids=["nonce", "tag"])
def test_a_changed_one_does_not_open(keys: Callable[..., None], place: int) -> None:
    keys(A)
    changed = list(VECTOR)
    changed[place] = "B" if changed[place] != "B" else "C"
    with pytest.raises((Unopenable, ValueError)):
        Private("".join(changed)).open(JO)


def test_a_text_can_not_be_moved_to_another_key_id(keys: Callable[..., None]) -> None:
    keys(A, "c:" + A[2:])
    with pytest.raises(Unopenable):
        Private(VECTOR.replace(":a:", ":c:")).open(JO)


def test_a_text_opens_for_no_other_entity_and_the_message_shows_nothing_of_it(keys: Callable[..., None]) -> None:
    keys(A)
    with pytest.raises(
        Unopenable, match="does not open it for dosage-reminders/al: it was sealed for another"
    ) as error:
        Private(VECTOR).open(AL)
    assert "\n" not in str(error.value)
    assert VECTOR[-40:] not in str(error.value)


def test_a_text_can_not_be_moved_to_another_field(keys: Callable[..., None]) -> None:
    keys(A)
    with pytest.raises(Unopenable, match="it is of the field 'phone', not 'text'"):
        Private(VECTOR).open(JO, "text")
    for name in ("text", ""):
        with pytest.raises(Unopenable):
            Private(VECTOR.replace(":phone:", f":{name}:")).open(JO)
    with pytest.raises(ValidationError) as error:
        Note.model_validate({"to": VECTOR})
    assert first_problem(error.value).startswith("to: it is a Private of the field 'phone': open it and make a new one")


class Sheet(BaseModel):
    """Fields of many shapes, and one with another name than its own."""

    phone: Private
    phones: list[Private] = []
    notes: dict[str, Note] = {}
    contact: Annotated[Phone | None, PrivateAs("to")] = None


def test_a_field_gives_its_name_to_what_it_holds_also_where_nothing_is_sealed() -> None:
    sheet = Sheet.model_validate_json(f'{{"phone": "{PHONE}", "phones": ["1"], "notes": {{"n": {{"to": "{PHONE}"}}}}}}')
    assert Note(to=sheet.notes["n"].to).to.open() == PHONE
    for other in (sheet.phone, sheet.phones[0]):
        with pytest.raises(ValidationError) as error:
            Note(to=other)
        assert "to: it is a Private of the field 'phone" in first_problem(error.value)


def test_two_fields_can_have_one_name(keys: Callable[..., None]) -> None:
    keys(A)
    with bound_to(JO):
        data = sealed_data(TypeAdapter(Sheet), Sheet.model_validate({"phone": PHONE, "contact": PHONE}))
        sheet = Sheet.model_validate(data)
        assert data["contact"].startswith("perdure-sealed:2:a:to:")
        assert sheet.contact is not None
        assert Note(to=sheet.contact).to.open() == PHONE
        assert Sheet(phone=sheet.phone, contact=Note(to=sheet.contact).to).contact == sheet.contact
    with pytest.raises(ValidationError):
        Sheet.model_validate({"phone": data["contact"]})


def test_a_value_sealed_for_another_entity_is_refused(keys: Callable[..., None]) -> None:
    keys(A)
    with bound_to(JO):
        data = sealed_data(TypeAdapter(Note), Note(to=Private(PHONE)))
    with bound_to(AL):
        for given in (Note.model_validate(data), Note.model_construct(to=Private(data["to"]))):
            with pytest.raises(ValidationError) as error:
                sealed_data(TypeAdapter(Note), given)
            assert first_problem(error.value).startswith("to: the key 'a' does not open it for dosage-reminders/al")
    keys(B)
    with bound_to(AL):  # a process without the key can't tell, and hands it on
        assert sealed_data(TypeAdapter(Note), Note.model_validate(data)) == data


def test_outside_of_a_body_the_entity_is_to_be_given(keys: Callable[..., None]) -> None:
    for verb in (Private(VECTOR).open, Private(PHONE).seal):
        keys(A)
        with pytest.raises(NotHere, match="give Entity"):
            verb()


def test_the_documented_example_opens(keys: Callable[..., None]) -> None:
    keys(A)
    assert Private(VECTOR).open(JO, "phone") == PHONE


def test_a_sealed_text_is_checked_against_its_pattern_when_it_is_opened(keys: Callable[..., None]) -> None:
    keys(A)
    text = as_json("e", "input", Private("555").seal(JO))
    note = Note.model_validate_json(f'{{"to": {text}}}')
    with pytest.raises(Unopenable, match="not of the form") as error:
        note.to.open(JO)
    assert "555" not in str(error.value)


def test_a_workflow_can_neither_open_nor_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "in_workflow", lambda: True)
    for verb in (Private.open, Private.seal):
        with pytest.raises(NotHere, match="a workflow can't"):
            verb(Private(PHONE))
