"""A progress line on stderr for whatever takes more than two seconds.

As a command: `python -m perdure.servers.progress "what is being done" -- command argument...`.
Needs nothing but the standard library: it runs before anything is installed.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_PATIENCE = 2.0  # seconds that need no explanation


@contextmanager
def progress(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Say `what` is being done while the block runs, once it has taken two seconds.

    On a terminal one line counts the seconds; in a pipe one line reports the start, and one the end.

    Args:
        what: e.g. "building the Temporal dev server with Go (once, 2-3 minutes)".
        stream: where to write; stderr by default.
    """
    line = _Line(what, stream or sys.stderr)
    ended = threading.Event()
    writer = threading.Thread(target=_show, args=(line, ended), name="progress", daemon=True)
    writer.start()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        ended.set()
        writer.join()
        line.end(outcome)


def _show(line: "_Line", ended: threading.Event) -> None:
    if ended.wait(_PATIENCE):
        return
    line.begin()
    while not ended.wait(1.0):
        line.update()


class _Line:
    def __init__(self, what: str, stream: TextIO) -> None:
        self._what, self._stream = what, stream
        self._terminal = stream.isatty()
        self._since = time.monotonic()
        self._begun = False

    def begin(self) -> None:
        self._begun = True
        self._write(self._text() if self._terminal else f"{self._what} ...\n")

    def update(self) -> None:
        if self._terminal:
            self._write("\r" + self._text())

    def end(self, outcome: str) -> None:
        if self._begun:
            carriage_return = "\r" if self._terminal else ""
            self._write(f"{carriage_return}{self._text()}, {outcome}\n")

    def _text(self) -> str:
        return f"{self._what} ... {time.monotonic() - self._since:.0f} s"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def main(arguments: list[str]) -> int:
    """Run a command under a progress line; its exit status is ours."""
    if len(arguments) < 3 or arguments[1] != "--":
        print('usage: python -m perdure.servers.progress "what is being done" -- command argument...', file=sys.stderr)
        return 2
    with progress(arguments[0]):
        return subprocess.run(arguments[2:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
