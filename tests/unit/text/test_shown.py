"""Names that are shown to a person."""

from __future__ import annotations

import pytest

from perdure._text.shown import entity_name
from perdure.contracts.scopes import scope_setting


@pytest.mark.parametrize(
    ("entity_id", "shown"),
    [
        ("7", "order/7"),
        ("a b", "order/a b"),
        ("ü", "order/ü"),
        ("a\nb", r"'order/a\nb'"),
        ("\u200b", r"'order/\u200b'"),
    ],
)
def test_the_name_of_an_entity_is_one_line_in_which_everything_can_be_seen(entity_id: str, shown: str) -> None:
    assert entity_name("order", entity_id) == shown


def test_a_scope_named_none_is_not_the_absence_of_a_scope() -> None:
    assert scope_setting("none") == "PERDURE_SCOPE='none'"
    assert scope_setting("") == scope_setting(None) == "no PERDURE_SCOPE"
