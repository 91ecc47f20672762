"""`perdure up` refuses what it could not run before it prints or starts anything."""

from __future__ import annotations

from typer.testing import CliRunner

from perdure.cli import cli
from perdure.errors import DeclarationError


def test_no_unit_is_printed_for_an_app_that_is_not_there() -> None:
    end = CliRunner().invoke(cli, ["up", "no_such_module:app", "--print-systemd"])
    assert isinstance(end.exception, DeclarationError)
    assert "no_such_module" in str(end.exception)
    assert "[Unit]" not in end.output
