"""Keys that a person presses while a command shows something."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Self


class Keys:
    """Reads single keys from the terminal, from `with` to its end; Ctrl-C stays what it is."""

    def __enter__(self) -> Self:
        self._terminal = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float, wanted: str) -> str | None:
        """The first key of `wanted` that is pressed within that time; None if none is.

        Raises:
            KeyboardInterrupt: nobody can press one any more.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._terminal], [], [], left)[0]:
                return None
            key = os.read(self._terminal, 1).decode("ascii", "replace")
            if not key:
                raise KeyboardInterrupt  # the terminal is gone
            if key in wanted:
                return key
        return None
