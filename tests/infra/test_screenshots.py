"""The pictures of a terminal show what a command prints, and load nothing."""

from __future__ import annotations

import os
import re
import sys

import pytest

from infra.site.screenshots.terminal import picture, printed


def _print(text: str, columns: int = 60) -> str:
    return printed([sys.executable, "-c", text], os.environ, columns)


def test_a_command_prints_on_a_terminal_of_that_width() -> None:
    program = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns)"
    assert _print(program, 47) == "True 47\n"


def test_all_that_a_command_prints_is_there() -> None:
    assert _print("print('x' * 100_000)") == "x" * 100_000 + "\n"


def test_a_command_that_fails_raises_what_it_printed() -> None:
    with pytest.raises(RuntimeError, match="no such order"):
        _print("import sys; sys.exit('no such order')")


def test_a_picture_shows_the_text_without_its_codes_of_colours() -> None:
    svg = picture("perdure show", "order/1042 \x1b[31mis in doubt\x1b[0m\n", 40)
    shown = "".join(re.findall(r">([^<>]*)</text>", svg)).replace("&#160;", " ")
    assert shown.startswith("perdure show")
    assert "order/1042 is in doubt" in shown
    assert "\x1b" not in svg


def test_a_picture_loads_nothing_from_elsewhere() -> None:
    svg = picture("perdure show", "order/1042\n", 40)
    assert set(re.findall(r"https?://[^\s\"')]+", svg)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "@font-face" not in svg
