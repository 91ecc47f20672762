"""An entity's id holds nothing that can't be seen: PostgreSQL and Python refuse the same characters."""

from __future__ import annotations

import sys
import unicodedata

import asyncpg
import pytest

from perdure._text.shown import UNSEEN
from perdure.contracts.keys import check_entity_id
from perdure.errors import InvalidEntity
from tests.world import World

CHECKED = """
    create function pg_temp.refused(code int) returns boolean language plpgsql as $$ begin
        perform perdure.check_entity('start', 'order', 'a' || chr(code) || 'b'); return false;
    exception when invalid_parameter_value then return true; end $$
"""


def _refused(code: int) -> bool:
    try:
        check_entity_id(f"a{chr(code)}b")
    except InvalidEntity:
        return True
    return False


def _is_used(code: int) -> bool:
    return code < 0x10000 or code & 0xFFFF < 0x1000 or 0x1B000 <= code < 0x1E000


async def test_postgresql_and_python_refuse_the_same_characters(world: World) -> None:
    await world.db.execute(CHECKED)
    # The planes that hold characters, and the beginning of each other one.
    codes = [code for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000 and _is_used(code)]
    rows = await world.db.fetch("select code from unnest($1::int[]) code where pg_temp.refused(code)", codes)
    found = {row["code"] for row in rows}
    assert found == {code for code in codes if _refused(code)}
    assert len(found) > 300


def test_exactly_the_invisible_characters_are_refused() -> None:
    visible = ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN")  # signs of these scripts that Unicode counts as formats
    for code in range(sys.maxunicode + 1):
        kind, name = unicodedata.category(chr(code)), unicodedata.name(chr(code), "")
        if (
            kind in ("Cc", "Zl", "Zp")
            or (kind == "Zs" and code != 0x20)
            or (kind == "Cf" and not name.startswith(visible))
        ):
            assert UNSEEN.fullmatch(chr(code)) or name == "ARABIC LETTER MARK", hex(code)
        if kind in ("Lu", "Ll", "Nd", "Sm", "Sc", "Pd") and name.startswith(("LATIN", "GREEK", "CYRILLIC", "DIGIT")):
            assert not UNSEEN.fullmatch(chr(code)), hex(code)


@pytest.mark.parametrize(
    "entity_id",
    [
        "a\nb",
        "a\x1b[2Jb",
        "a\u202eb",
        "a\u200bb",
        "a\u2028b",
        "a\ufeffb",
        "a\u3164b",
        "a\u00a0b",
        "a\U000e0041b",
        " a",
        "a ",
    ],
)
async def test_an_id_that_could_deceive_is_refused_with_what_it_is(world: World, entity_id: str) -> None:
    with pytest.raises(InvalidEntity, match="characters that can't be seen, or blanks at an end") as raised:
        check_entity_id(entity_id)
    assert not UNSEEN.search(str(raised.value))
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await world.db.execute("select perdure.start('order', $1, '{}')", entity_id)
    assert "can not be an entity id" in str(refused.value)
    assert not UNSEEN.search(str(refused.value.args[0]))
