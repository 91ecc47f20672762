"""The names of entities and the keys of effects never change, and no database or server refuses one."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from uuid import UUID

import pytest

from perdure import Client, Entity
from perdure.client.naming import entity_of
from perdure.contracts import Key
from perdure.contracts.keys import LONGEST_ID, check_name
from perdure.errors import InvalidEntity, InvalidInput


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Key.of(Entity("note", "7"), "send"), "note/7/send"),
        (Key.of(Entity("note", "7", 2), "send"), "note/7~2/send"),
        (Key.of(Entity("note", "7"), "send", "bob"), "note/7/send/bob"),
        (Key.of(Entity("note", "7"), "send", again=1), "note/7/send~1"),
        (Key.of(Entity("note", "7", 2), "send", "bob", 3), "note/7~2/send/bob~3"),
        (Key.of(Entity("note", "a/b ü"), "send"), "note/a%2Fb ü/send"),
    ],
)
def test_a_key_says_entity_round_effect_suffix_and_how_often_anew(key: Key, text: str) -> None:
    assert key == text


def test_a_token_is_short_ascii_and_never_changes() -> None:
    key = Key.of(Entity("note", "ü" * (LONGEST_ID // 2)), "send")
    assert re.fullmatch(r"[0-9a-f]{40}", key.token)
    # other sides have these on record
    assert Key("note/7/send").token == "df7f93bf9e59e9cdce6ddfcc2e61a3e2b31c22fa"
    assert Key("note/7/send").token != Key("note/7/send~1").token


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "is empty"),
        ("x" * 901, "has 901 bytes; 900 is the most"),
        ("a\nb", "can't be seen"),
        ("a\0", "can't be seen"),
        ("\ud800", "can't be seen"),
        (" 7", "blanks at an end"),
        ("7 ", "blanks at an end"),
        ("/" * 501, "1503 bytes in keys of effects"),
    ],
)
def test_an_id_that_can_not_be_used_is_refused_with_a_way_out(given: str, why: str) -> None:
    with pytest.raises(InvalidEntity, match=why) as caught:
        Entity("note", given)
    assert "use the row's own key" in str(caught.value) or "give the id of the row" in str(caught.value)


@pytest.mark.parametrize("given", ["7", "x" * 900, "/" * 500, "a/b", "Müller & Söhne", "a~1", "🙂"])
def test_an_id_of_printable_characters_is_taken_as_it_is(given: str) -> None:
    assert Entity("note", given).id == given


@pytest.mark.parametrize("suffix", ["x" * 501, "ü" * 251, "~" * 167, "a\0b", "\ud800"])
def test_a_suffix_that_no_key_can_hold_is_refused(suffix: str) -> None:
    with pytest.raises(InvalidInput, match=r"note/7: send: the suffix '.*\d bytes, 500 without|is no text"):
        Key.of(Entity("note", "7"), "send", suffix)


def test_the_longest_key_fits_into_an_index_of_postgresql() -> None:
    key = Key.of(Entity("n" * 63, "/" * 500, 2**31 - 1), "e" * 63, "~" * 166, 2**31 - 1)
    assert len(key.encode()) < 2600


class Code(str, Enum):  # noqa: UP042 - its str() is 'Code.RED'
    RED = "red"


class Number(IntEnum):
    SEVEN = 7


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("7", "7"),
        (7, "7"),
        (Number.SEVEN, "7"),
        (Code.RED, "red"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_a_string_an_integer_and_a_uuid_can_be_an_id(given: object, text: str) -> None:
    assert entity_of("order", given).id == text
    assert type(entity_of("order", given).id) is str


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (b"1", "b'1', a bytes"),
        (True, "True, a bool"),
        (1.0, "1.0, a float"),
        (Decimal("1"), "Decimal('1'), a Decimal"),
        (date(2026, 1, 2), "datetime.date(2026, 1, 2), a date"),
        (("a", 1), "('a', 1), a tuple"),
    ],
)
async def test_an_id_of_another_type_is_refused_by_every_verb_that_takes_one(given: object, shown: str) -> None:
    client = Client()
    for asked in (
        client.start("order", given, {}),
        client.signal("order", given, "pay"),
        client.restart("order", given, by="ann", note=""),
        client.cancel("order", given, by="ann"),
        client.retry("order", given, by="ann"),
        client.status("order", given),
        client.wait("order", given),
    ):
        with pytest.raises(InvalidEntity) as caught:
            await asked
        assert f"the id of order is {shown}: give a str, an int or a UUID" in str(caught.value)
    with pytest.raises(InvalidEntity, match="give a str"):
        Entity("order", given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Note", "7note", "note/7", "note~1", "x" * 64, "nöte", "note\n"])
def test_a_name_that_would_blur_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidEntity, match="can't be used as a name"):
        check_name("lifecycle", name)


@pytest.mark.parametrize("scope", [None, "shop"])
@pytest.mark.parametrize("entity_id", ["7", "note/7", "shop/note/7", "a/b"])
def test_the_workflow_id_leads_back_to_the_entity(scope: str | None, entity_id: str) -> None:
    entity = Entity("note", entity_id, 3)
    assert Entity.of_workflow(entity.workflow_id(scope), "note", 3) == entity


@pytest.mark.parametrize(
    "workflow_id",
    ["7", "note", "note/", "other/7", "a/b/note/7", "shop/note/7", "shop:note/", "shop:other/7", ":note/7"],
)
def test_a_workflow_id_that_names_no_entity_is_refused(workflow_id: str) -> None:
    with pytest.raises(InvalidEntity, match=r"start it as 'note/<entity id>'"):
        Entity.of_workflow(workflow_id, "note", 0)


def test_no_two_scopes_share_a_workflow_id() -> None:
    assert Entity("note", "a/b").workflow_id(None) != Entity("a", "b").workflow_id("note")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Key.of(Entity("note", "a~1"), "ring"), Key.of(Entity("note", "a", 1), "ring")),
        (Key.of(Entity("note", "a"), "ring", "x~1"), Key.of(Entity("note", "a"), "ring", "x", 1)),
        (Key.of(Entity("note", "a/ring"), "ring"), Key.of(Entity("note", "a"), "ring", "ring")),
        (Key.of(Entity("note", "a/b"), "ring"), Key.of(Entity("note", "a%2Fb"), "ring")),
    ],
)
def test_no_two_effects_share_a_key(one: Key, other: Key) -> None:
    assert one != other
