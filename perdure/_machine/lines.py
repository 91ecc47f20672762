"""The output of all processes in one stream, on standard error: each line names its process."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from perdure._text.shown import json_text, one_line

_WIDTH = 8
"""Characters of a name, so that most lines begin in one column."""
_LONGEST = 1 << 16
"""Bytes of a line. What is longer is cut into several."""
_TOO_EARLY = b"Frontend is not healthy yet"
"""Temporal logs this as an error each time that it is asked, before it serves, whether it serves."""
_OF_TEMPORAL = {"level", "ts", "msg", "logging-call-at", "stacktrace"}


class Lines:
    """Where the lines go.

    Args:
        as_json: whether each line is a JSON object, as with `PERDURE_LOG=json`.

    Attributes:
        muted: names of processes whose lines are left out.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.muted: set[str] = set()

    async def read(self, name: str, output: asyncio.StreamReader) -> None:
        """Write each line of `output` until it ends."""
        rest = b""
        while piece := await output.read(_LONGEST):
            *whole, rest = (rest + piece).split(b"\n")
            self._write(name, whole)
            if len(rest) > _LONGEST:
                self._write(name, [rest])
                rest = b""
        if rest:
            self._write(name, [rest])

    def _write(self, name: str, lines: list[bytes]) -> None:
        if name in self.muted:
            return
        shown = json_line if self._as_json else plain_line
        kept = (line for line in lines if _TOO_EARLY not in line)
        text = "".join(f"{shown(name, line.decode(errors='replace'))}\n" for line in kept)
        with suppress(OSError):  # as of a full disk: these lines are lost, and the process must still be read
            sys.stderr.write(text)
            sys.stderr.flush()


def plain_line(name: str, line: str) -> str:
    """A line for a person.

    Example:
        >>> plain_line("temporal", '{"level": "warn", "ts": "2030-01-01T12:00:01.5Z", "msg": "slow", "shard-id": 3}')
        'temporal | 12:00:01 warn slow | shard-id=3'
    """
    found = _object(line)
    if found and _OF_TEMPORAL & {"ts", "msg"} <= found.keys():
        more = " ".join(f"{key}={value}" for key, value in found.items() if key not in _OF_TEMPORAL)
        line = f"{str(found['ts'])[11:19]} {found.get('level', '')} {found['msg']}{' | ' if more else ''}{more}"
    return f"{name:<{_WIDTH}} | {one_line(line)}"


def json_line(name: str, line: str) -> str:
    """A JSON object that has the name as `process`, whether the line was one or not.

    Example:
        >>> json_line("worker-1", "ready")
        '{"process": "worker-1", "message": "ready"}'
    """
    found = _object(line)
    shown = {"process": name} | (found or {"message": line}) | {"process": name}
    return json_text(json.dumps(shown, ensure_ascii=False))


def _object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # of a line that somebody else may have made up
        return None
    return found if isinstance(found, dict) else None
