"""`perdure up` refuses what it could not run before it prints or starts anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perdure.cli import cli
from perdure.errors import DeclarationError


def test_no_unit_is_printed_for_an_app_that_is_not_there() -> None:
    end = CliRunner().invoke(cli, ["up", "no_such_module:app", "--print-systemd"])
    assert isinstance(end.exception, DeclarationError)
    assert "no_such_module" in str(end.exception)
    assert "[Unit]" not in end.output


def test_no_unit_is_printed_for_a_console_whose_options_can_not_be_read() -> None:
    end = CliRunner().invoke(cli, ["up", "tests.apps.bodies:app", "--console", "--port '8485", "--print-systemd"])
    assert end.exit_code == 2
    assert '--console "--port \'8485": No closing quotation' in end.output
    assert "[Unit]" not in end.output


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """The folder of another user."""
    folder, user = tmp_path / "state", os.geteuid()
    folder.mkdir(mode=0o000)
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)


def test_the_status_of_another_users_folder_is_refused_in_one_line(closed: Path) -> None:
    end = CliRunner().invoke(cli, ["up", "status", "--state", str(closed)])
    assert end.exit_code == 1
    assert "is open to its owner alone" in end.output.replace("\n", " ")
