"""`perdure help` shows every page that an error or a finding names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import perdure
from perdure.cli import cli
from perdure.cli.help import pages

ROOT = Path(perdure.__file__).parent
NAMED = sorted(
    {
        name
        for file in ROOT.rglob("*.py")
        for name in re.findall(r"`?perdure help ([A-Za-z-]+)", file.read_text())
        if file.name != "help.py"
    }
)


def test_pages_are_named_in_advice() -> None:
    assert len(NAMED) > 4


@pytest.mark.parametrize("name", NAMED)
def test_a_page_that_is_named_is_there(name: str) -> None:
    end = CliRunner().invoke(cli, ["help", name])
    assert end.exit_code == 0
    assert end.stdout.strip() == pages()[name].read_text().strip()


def test_all_pages_are_listed_with_their_titles() -> None:
    end = CliRunner().invoke(cli, ["help"])
    assert re.search(r"^effects +Writing an effect$", end.stdout, re.MULTILINE)
    assert len(end.stdout.splitlines()) == len(pages())


def test_an_unknown_page_is_refused_with_the_nearest() -> None:
    end = CliRunner().invoke(cli, ["help", "efects"])
    assert (end.exit_code, end.stderr) == (2, "perdure: no page is named 'efects'; did you mean 'effects'?\n")


@pytest.mark.parametrize(("command", "page"), [("up", "one-machine"), ("doctor", "command"), ("dev", "command")])
def test_a_command_without_a_page_of_its_name_shows_its_help_and_the_pages_about_it(command: str, page: str) -> None:
    end = CliRunner().invoke(cli, ["help", command])
    assert end.exit_code == 0, end.output
    assert re.search(rf"Usage: perdure {command}\b", end.stdout)
    assert re.search(rf"^Pages: .*\bperdure help {page}\b", end.stdout, re.MULTILINE)


def test_no_advice_names_a_file_that_a_wheel_does_not_have() -> None:
    """Comments and docstrings may: whoever reads the code has the repository."""
    text = re.compile(r"\bdocs/[a-z/-]+\.md")
    guilty = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in ROOT.rglob("*.py")
        for number, line in enumerate(re.sub(r'"""(?s:.*?)"""', _blank, file.read_text()).splitlines(), start=1)
        if text.search(line.partition("#")[0])
    ]
    assert guilty == []


def _blank(prose: re.Match[str]) -> str:
    return "\n" * prose[0].count("\n")
