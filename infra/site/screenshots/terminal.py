"""What a command prints on a terminal, as a picture."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

_FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def printed(command: Sequence[str | Path], environment: Mapping[str, str], width: int) -> str:
    """What `command` prints on a terminal of this width, with its colours.

    Raises:
        RuntimeError: it failed; the message holds what it printed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    settings = {"TERM": "xterm-256color", "COLUMNS": str(width)}
    process = subprocess.Popen(
        command, env={**environment, **settings}, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    text = b"".join(iter(lambda: _read(ours), b"")).decode().replace("\r\n", "\n")
    os.close(ours)
    if process.wait() != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {text}")
    return text


def picture(title: str, text: str, width: int) -> str:
    """SVG of a terminal that shows `text`, which may hold ANSI's sequences for colours."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text.rstrip("\n") + "\n"), overflow="fold")
    svg = console.export_svg(title=title, unique_id="terminal")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no font comes from elsewhere
    return re.sub(r"font-family: (Fira Code, monospace|arial)", f"font-family: {_FONTS}", svg)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that nobody writes any more
        return b""
