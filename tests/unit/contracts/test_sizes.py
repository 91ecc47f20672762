"""JSON that PostgreSQL keeps and Python cannot read back is refused with the reason."""

from __future__ import annotations

import pytest

from perdure.contracts.sizes import DEEPEST, is_too_deep, parsed
from perdure.errors import InvalidInput


def nested(levels: int, inner: str = "1") -> str:
    """A value as JSON text, in so many arrays and objects by turns."""
    for level in range(levels):
        inner = f"[{inner}]" if level % 2 else f'{{"a": {inner}}}'
    return inner


def test_the_deepest_value_may_lie_one_level_above_the_limit() -> None:
    assert not is_too_deep(parsed(nested(DEEPEST - 1)))
    assert not is_too_deep(parsed(nested(DEEPEST - 1, "[]")))
    with pytest.raises(InvalidInput, match="its JSON is nested 100 levels deep or deeper: keep the rest in a table"):
        parsed(nested(DEEPEST))
    assert is_too_deep([1, {"a": [1, 2], "b": [[[]] * DEEPEST]}]) is False


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (nested(1_200), "its JSON is nested 100 levels deep or deeper"),
        (nested(100_000), "its JSON is nested 100 levels deep or deeper"),
        ("1" + "0" * 4_500, "its JSON has an integer with more digits than Python reads"),
    ],
    ids=["deep", "very deep", "a long integer"],
)
def test_what_python_cannot_read_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parsed(text)
