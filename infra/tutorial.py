"""Follows docs/tutorial.md word for word: types its commands, makes its changes, and compares what it shows.

In the console, it chooses what a list after `<!-- console -->` has in bold.

A line of the page stands for one of the output with the same words: times, ports, keys and process ids may differ, and
how often an effect was doubled, because a machine that stalls loses attempts of its own.
A command that only shows something is repeated until it shows what the page shows.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from infra.browsing import Browser

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
SECONDS = 400
"""How long a command may take, or may be repeated."""
_BLOCK = re.compile(
    r"(?:^<!-- terminal (\d) -->\n)?^```(console|diff|python)\n(.*?)^```$|^<!-- (console) -->\n(.*?)\n\n(?=\S)",
    re.MULTILINE | re.DOTALL,
)
_CHOSEN = re.compile(r"\*\*(.+?)\*\*(?:: `(.+?)`)?")
_CONSOLE = re.compile(r"^Console +(http://\S+)", re.MULTILINE)
_END = "end of command"
_INSTALLS = ("python3 -m venv", ". venv/", "python -m pip install")
_SHOWS = ("perdure show", "perdure doubts", "python -m shop.payments --list")
_FAILED = "perdure.testing.crashing.proof.CrashPointsFailed: "
_VARIES = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[0-9a-f]{40}|dev-[0-9a-f]{8}|127\.0\.0\.1:\d+|\d+\.\d s|\S+-\d+-[0-9a-f]{8}"
    r"|\S+ \(local, not authenticated\)|(?<=happened )(?!1 )\d+(?= times)"
)
Report = Callable[[str], None]


class Differs(Exception):
    """What happened is not what the page shows."""


class Terminal:
    """A shell that keeps its folder and its environment from command to command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def type(self, command: str) -> str:
        """Run a command to its end; what it wrote."""
        self._send(f"{command} < /dev/null\necho; echo {shlex.quote(_END)}\n")
        lines: list[str] = []
        for line in self.lines():
            if line == _END:
                return "\n".join(lines)
            lines.append(line)
        raise Differs(f"{command}: the shell ended\n" + "\n".join(lines))

    def leave(self, command: str) -> Iterator[str]:
        """Start a command that runs on; what it writes, line by line."""
        self._send(f"{command} < /dev/null\n")
        return self.lines()

    def lines(self) -> Iterator[str]:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            yield line.rstrip("\n")

    def close(self) -> None:
        """Press Ctrl-C, and end the shell."""
        os.killpg(self._shell.pid, signal.SIGINT)
        self._shell.communicate(timeout=180)

    def _send(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text)
        self._shell.stdin.flush()


def follow(folder: Path, environment: Mapping[str, str], report: Report, *, installed: bool) -> None:
    """Follow the page, in an empty folder.

    Args:
        folder: the empty folder.
        environment: of both terminals.
        report: receives each command.
        installed: `perdure` and what the project depends on are installed already: nothing is installed.

    Raises:
        Differs: with what the page shows, and what was shown.
    """
    reader = _Reader(folder, environment, report, installed)
    try:
        for terminal, kind, text, in_console, steps in _BLOCK.findall(PAGE.read_text()):
            if in_console:
                reader.choose(steps)
            elif kind == "console":
                reader.type(terminal, text)
            else:
                reader.change(kind, text)
    finally:
        reader.close()


class _Reader:
    """A reader who follows the page."""

    def __init__(self, folder: Path, environment: Mapping[str, str], report: Report, installed: bool) -> None:
        self._folder, self._environment, self._report, self._installed = folder, environment, report, installed
        self._terminals: dict[str, Terminal] = {}
        self._at = "1"
        self._console = ""

    def type(self, terminal: str, text: str) -> None:
        """Type the commands of a block."""
        self._at = terminal or self._at
        if self._at not in self._terminals:
            self._terminals[self._at] = Terminal(self._folder, self._environment)
        for command, shown in _commands(text):
            if not (self._installed and command.startswith(_INSTALLS)):
                self._report(f"{self._at} $ {command}")
                output = _run(self._terminals[self._at], command, shown)
                self._console = next(iter(_CONSOLE.findall(output)), self._console)
            if self._installed and command.startswith("perdure new"):
                _mark_installed(self._folder / "shop")

    def choose(self, steps: str) -> None:
        """Take the steps of a list in the console. An element that is not there yet is awaited."""
        browser = Browser(self._console)
        for words, value in _CHOSEN.findall(steps):
            self._report(f"console: {words} {value}")
            end = time.monotonic() + SECONDS
            while True:
                try:
                    browser.fill_in(words, value) if value else browser.choose(words)
                    break
                except LookupError as error:
                    if time.monotonic() > end:
                        raise Differs(f"the page has {words!r}, but {error}") from None
                    browser.load()

    def change(self, kind: str, text: str) -> None:
        """Change the file as a block shows."""
        file = self._folder / "shop" / "shop" / "orders.py"
        file.write_text(_changed(file.read_text(), kind, text))

    def close(self) -> None:
        """End all that runs in the terminals, the last opened first."""
        for each in reversed(self._terminals.values()):
            each.close()


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that the page shows below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line]


def _run(terminal: Terminal, command: str, shown: list[str]) -> str:
    """Run a command until it shows what the page shows; what it wrote, as far as it was read."""
    if command == "make dev":
        written: list[str] = []
        if missing := _missing(shown, _kept(terminal.leave(command), written)):
            raise Differs(f"{command}: never came: {missing}")
        return "\n".join(written)
    end = time.monotonic() + SECONDS
    while True:
        output = terminal.type(command)
        missing = _missing(shown, iter(output.splitlines()))
        if not missing:
            return output
        if not command.startswith(_SHOWS) or time.monotonic() > end:
            raise Differs(f"{command}: the page shows\n{missing}\nbut it was\n{output}")


def _kept(lines: Iterator[str], into: list[str]) -> Iterator[str]:
    for line in lines:
        into.append(line)
        yield line


def _missing(shown: list[str], lines: Iterator[str]) -> str | None:
    """The first line of the page that does not come, in this order; the lines are read as far as needed."""
    for wanted in shown:
        if not any(_is(wanted, line) for line in lines):
            return wanted
    return None


def _is(wanted: str, line: str) -> bool:
    """Whether the line is the wanted one, or begins with it; a summary of pytest may have = around it. Only the first
    crash point that failed has the name of the error before it: on a machine that stalls, an earlier one may fail too.
    """
    return _plain(line).startswith((_plain(wanted), _plain(wanted).replace(_FAILED, "")))


def _plain(line: str) -> str:
    return " ".join(_VARIES.sub("~", line.strip("= ")).split())


def _changed(text: str, kind: str, block: str) -> str:
    """The file with the change of a diff. An excerpt must stand in it as it is."""
    changes = re.findall(r"^-(.*\n)\+(.*\n)", block, re.MULTILINE) if kind == "diff" else [(block, block)]
    for removed, added in changes:
        if text.count(removed) != 1:
            raise Differs(f"shop/orders.py has this {text.count(removed)} times:\n{removed}")
        text = text.replace(removed, added)
    return text


def _mark_installed(project: Path) -> None:
    (project / ".perdure").mkdir()
    (project / ".perdure" / "installed").touch()
