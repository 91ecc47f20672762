"""The pages that an application adds: what is wrong with one is said before the console starts."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.responses import Response

from perdure import App
from perdure.console import Page, View, page
from perdure.console.added import added
from perdure.console.pages import PAGES
from perdure.errors import DeclarationError


async def show(view: View) -> Response:
    """A page."""
    return view.render("tills/tills.html")


TILLS = Page("tills", "/tills", show, menu="Tills")


def declared(monkeypatch: pytest.MonkeyPatch, pages: Any, folder: Path) -> str:
    module = ModuleType("shop_console")
    module.__file__ = str(folder / "console.py")
    module.PAGES = pages  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_console", module)
    return "shop_console:PAGES"


def test_an_application_adds_pages_and_templates_beside_their_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = added(App([], pages={"tills": declared(monkeypatch, [TILLS], tmp_path)}), PAGES)
    assert found.pages == [TILLS]
    assert found.templates == {"tills": tmp_path / "templates"}
    assert added(None, PAGES).pages == []


@pytest.mark.parametrize(
    ("pages", "why"),
    [
        ("PAGES", "is a str, not a list of perdure.console.Page"),
        ([("tills", "/tills")], "is a list, not a list of perdure.console.Page"),
        ([Page("tills", "tills", show)], "its path must begin with a slash"),
        ([TILLS, Page("tills", "/more", show)], "two pages are named 'tills': give one of them another name"),
        ([TILLS, Page("more", "/tills", show)], "where the console already has tills at /tills: give it another path"),
        ([Page("mine", "/limits/x", show)], "where the console already has limits.ask at /limits/{name}"),
        ([Page("mine", "/sign-in", show)], "where the console already has its own at /sign-in"),
    ],
)
def test_what_is_no_page_or_stands_where_another_one_stands_is_named(
    pages: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App([], pages={"tills": declared(monkeypatch, pages, tmp_path)})
    with pytest.raises(DeclarationError) as refused:
        added(app, PAGES, ["/sign-in"])
    assert str(refused.value).startswith("App(pages={'tills': 'shop_console:PAGES'})")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("name", "place", "why"),
    [
        ("tills", "no_such_module:PAGES", "there is no module 'no_such_module'"),
        ("tills", "perdure.console.pages:TILLS", "the module 'perdure.console.pages' has no 'TILLS'"),
        ("tills", "perdure.console.pages", "write package.module:name"),
        ("The tills", "perdure.console.pages:PAGES", "the name 'The tills' is no name"),
    ],
)
def test_a_place_that_holds_nothing_is_named(name: str, place: str, why: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        added(App([], pages={name: place}), PAGES)
    assert str(refused.value).startswith(f"App(pages={{{name!r}: {place!r}}})")
    assert why in str(refused.value)


def test_the_example_of_a_page_runs() -> None:
    example = doctest.DocTestParser().get_doctest(Page.__doc__ or "", dict(vars(page)), "Page", None, 0)
    assert len(example.examples) == 2
    assert doctest.DocTestRunner().run(example).failed == 0
