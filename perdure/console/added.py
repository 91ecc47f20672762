"""The pages that an application adds to the console: each is checked before the console is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.routing import compile_path

from perdure._loading import load, load_module
from perdure.app import App
from perdure.console.page import Page
from perdure.errors import DeclarationError

_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Added:
    """What the application adds.

    Attributes:
        pages: in the order of their declaration.
        templates: the folders `templates` beside the modules that declare them, by the name in `App(pages=)`.
    """

    pages: list[Page] = field(default_factory=list)
    templates: dict[str, Path] = field(default_factory=dict)


def added(app: App | None, own: Sequence[Page], fixed: Iterable[str] = ()) -> Added:
    """The pages that `App(pages=)` names.

    Args:
        own: the pages of the console itself.
        fixed: paths that no page may have.

    Raises:
        DeclarationError: they are not there, are no pages, or stand where another page stands.
    """
    found, there = Added(), [("", "", path) for path in fixed] + [(each.name, each.method, each.path) for each in own]
    for name, place in (app.pages if app else {}).items():
        given = f"App(pages={{{name!r}: {place!r}}})"
        if _NAME.fullmatch(name) is None:
            raise DeclarationError(f"{given}: the name {name!r} is no name: take a to z, 0 to 9, - and _")
        try:
            pages = load(place)
            module = load_module(place.partition(":")[0], place)
        except DeclarationError as error:
            raise DeclarationError(f"{given}: {error}") from error
        if not isinstance(pages, (list, tuple)) or not all(isinstance(each, Page) for each in pages):
            raise DeclarationError(f"{given} is a {type(pages).__name__}, not a list of perdure.console.Page")
        for page in pages:
            _check(page, there, given)
            there.append((page.name, page.method, page.path))
        found.pages.extend(pages)
        found.templates[name] = Path(module.__file__ or ".").parent / "templates"
    return found


def _check(page: Page, there: Iterable[tuple[str, str, str]], given: str) -> None:
    if not page.path.startswith("/"):
        raise DeclarationError(f"{given}: the page {page.name!r} is at {page.path!r}: its path must begin with a slash")
    for name, method, path in there:
        if page.name == name:
            raise DeclarationError(f"{given}: two pages are named {name!r}: give one of them another name")
        if method in ("", page.method) and compile_path(path)[0].match(page.path):
            raise DeclarationError(
                f"{given}: the page {page.name!r} is at {page.path}, where the console already has {name or 'its own'} "
                f"at {path}: give it another path"
            )
