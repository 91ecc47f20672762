"""The navigation of the site names every page, and its generated reference has a row for each subject."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml

from infra.site import diagrams, reference, settings
from perdure._store import schema
from perdure._store.schema.kinds import RIGHTS, Kind
from perdure.contracts import policies
from perdure.contracts.outcomes import EffectStatus
from perdure.settings import Settings
from perdure.telemetry import names

ROOT = Path(__file__).parents[2]


class _Loader(yaml.SafeLoader):
    """Reads the tags of MkDocs for Python objects as nothing."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def _places(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [place for each in (nav.values() if isinstance(nav, dict) else nav) for place in _places(each)]


_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")


def _code(rows: list[tuple[str, ...]], column: int = 0) -> list[str]:
    return [row[column].strip("`") for row in rows]


def test_the_navigation_names_every_page_once_and_no_other() -> None:
    named = _places(yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)["nav"])
    written = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(named) == sorted(written | set(reference.PAGES))


def test_the_manual_leads_to_the_applications_from_one_page() -> None:
    """Each application has a manual of its own, beside its code: no wheel installs them."""
    leading = [page.name for page in (ROOT / "docs").rglob("*.md") if "../activities/" in page.read_text()]
    assert leading == ["examples.md"]


def test_each_decision_has_a_number_of_its_own_and_stands_in_the_index() -> None:
    page = (ROOT / "docs" / "decisions.md").read_text()
    numbers = re.findall(r"^### (\d+)\. \S", page, re.MULTILINE)
    assert len(numbers) == len(set(numbers)) > 20
    assert re.findall(r"\[(\d+)\]\(#\d", page) == numbers


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_drawing_is_what_its_code_draws(name: str) -> None:
    assert (diagrams.FOLDER / f"{name}.svg").read_text() == diagrams.DIAGRAMS[name]().svg(), (
        "run: python -m infra.site.diagrams"
    )


def test_the_drawing_of_the_states_shows_each_status() -> None:
    shown = set(re.findall(r">([^<>]+)</text>", diagrams.states_of_an_effect().svg()))
    assert {"no record" if each is EffectStatus.ABSENT else each.replace("_", " ") for each in EffectStatus} <= shown


def test_the_drawing_of_the_kills_names_each_doubt_policy() -> None:
    shown = set(re.findall(r">([^<>]+)</text>", diagrams.where_a_kill_can_fall().svg()))
    declared = {(get_origin(each) or each).__name__ for each in get_args(policies.DoubtPolicy)}
    assert len(declared) == 4
    assert declared <= shown


def test_each_picture_stands_in_a_page_and_each_has_a_text_for_those_who_do_not_see_it() -> None:
    found = [(page, *image) for page in (ROOT / "docs").rglob("*.md") for image in _IMAGE.findall(page.read_text())]
    assert [(page, place) for page, text, place in found if len(text) < 40] == []
    assert {(page.parent / place).resolve() for page, _, place in found} == set((ROOT / "docs" / "images").iterdir())


def test_no_picture_is_large() -> None:
    assert {file.name: file.stat().st_size for file in diagrams.FOLDER.iterdir() if file.stat().st_size > 150_000} == {}


def test_the_page_of_settings_is_that_of_their_class() -> None:
    assert settings.PAGE.read_text() == settings.page(), "run: python -m infra.site.settings"


def test_each_setting_has_a_row_with_its_meaning() -> None:
    rows = settings.setting_rows()
    assert _code(list(rows)) == [f"PERDURE_{name.upper()}" for name in Settings.model_fields]
    assert [row for row in rows if not (row[1] and row[2])] == []


def test_each_sql_function_that_an_app_or_a_person_may_call_is_there() -> None:
    files = {file.stem for file in (Path(schema.__file__).parent / "functions").glob("*.sql")}
    granted = {name for kind in reference.CALLERS for name in RIGHTS[kind].functions or ()}
    found = reference.sql_functions()
    assert {each.name for each in found} == granted - {"forget", "incarnation"}
    assert granted <= files
    assert [each.name for each in found if not (each.comment and each.result)] == []
    assert {each.name for each in found if Kind.APP in each.callers} == set(RIGHTS[Kind.APP].functions or ())


def test_each_metric_has_a_row() -> None:
    assert _code(list(reference.metric_rows())) == [each.name for each in names.METRICS]


def test_each_exported_name_stands_in_the_api_once() -> None:
    shown = [(room, name) for room, own in reference.api_names() for name in own]
    things = {id(getattr(importlib.import_module(room), name)) for room, name in shown}
    exported = {
        id(getattr(importlib.import_module(room), name))
        for room in reference.ROOMS
        for name in reference.exported(room)
    }
    assert things == exported
    assert len(things) == len(shown)


def test_each_command_is_there_with_its_options() -> None:
    found = dict(reference.commands())
    assert {"perdure grant", "perdure status", "perdure archive drop"} <= found.keys()
    rows = reference.parameter_rows(found["perdure grant"])
    assert {"`ROLE`", "`--as`", "`--lifecycle`", "`--tenant`"} <= {name for name, _, _ in rows}


@pytest.mark.parametrize("place", reference.PAGES)
def test_a_generated_page_begins_with_its_title(place: str) -> None:
    assert reference.PAGES[place]().startswith("# ")


def test_a_cell_of_a_table_holds_bars_and_brackets() -> None:
    assert reference.table(("a",), [("x | `<y>` <z>",)]) == "| a |\n| --- |\n| x \\| `<y>` &lt;z> |\n"
