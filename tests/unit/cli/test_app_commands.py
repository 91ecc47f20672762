"""`App(commands=)` adds the application's commands to `perdure`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from perdure.cli import cli
from perdure.errors import DeclarationError


@pytest.fixture(autouse=True)
def application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_APP", "tests.apps.commanding:app")


def test_a_word_of_the_application_is_carried_out() -> None:
    end = CliRunner().invoke(cli, ["say", "greet", "ann"])
    assert (end.exit_code, end.stdout) == (0, "hello ann\n")


def test_the_list_of_commands_has_them_beside_perdures_own() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).stdout
    assert "What this application has to say." in shown
    assert "status" in shown


def test_perdures_own_words_do_not_need_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_APP", "tests.apps.nowhere:app")
    assert CliRunner().invoke(cli, ["status", "--help"]).exit_code == 0


def test_without_an_application_an_unknown_word_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_APP")
    end = CliRunner().invoke(cli, ["say", "greet", "ann"])
    assert end.exit_code == 2
    assert "PERDURE_APP=package.module:name" in end.stderr


def test_a_group_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_APP", "tests.apps.commanding:broken")
    end = CliRunner().invoke(cli, ["say", "greet", "ann"])
    assert isinstance(end.exception, DeclarationError)
    assert "'tests.apps.commanding:nothing'" in str(end.exception)
