"""Each error has a code of its own, and docs/errors.md lists it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from perdure import errors
from perdure.errors import PerdureError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
CLASSES = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, PerdureError) and each is not PerdureError
]


def test_no_two_errors_have_one_code() -> None:
    codes = [each.code for each in CLASSES]
    assert sorted(codes) == sorted(set(codes))
    assert PerdureError.code not in codes


@pytest.mark.parametrize("kind", CLASSES)
def test_a_code_has_the_form_that_people_search_for(kind: type[PerdureError]) -> None:
    assert re.fullmatch(r"PERDURE-[1-9][0-9]{3}", kind.code)


def test_the_page_lists_each_error_with_its_code_and_its_meaning() -> None:
    listed = re.findall(r"^\| `(PERDURE-[0-9]+)` \| `(\w+)` \| (.*?) \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    assert listed == sorted((each.code, each.__name__, " ".join((each.__doc__ or "").split())) for each in CLASSES)
