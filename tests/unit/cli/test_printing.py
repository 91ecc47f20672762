"""The commands print text of others without letting it deceive the reader."""

from __future__ import annotations

import pytest

from perdure.cli.printing import print_table


def test_nothing_that_was_written_moves_the_terminals_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "why"), [("1", "gone\x1b[2J\r\nover"), ("22", None)], title="found")
    assert capsys.readouterr().out == "found\nid  why\n1   gone\N{REPLACEMENT CHARACTER}[2J over\n22\n"
