"""Structured logs: a sentence, and fields for entity, key, attempt and outcome. They contain neither payloads nor
messages of errors that may quote one."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from perdure._text.privacy import format_error
from perdure._text.shown import field, json_text, lines, one_line

FIELDS = "perdure"
"""Attribute of a log record with the fields."""
LONG = 1.5
"""Seconds after which a wait is logged."""


def log_event(log: logging.Logger, sentence: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log `sentence` with `fields`, both readable in plain text and as data."""
    if log.isEnabledFor(level):
        known = {name: value for name, value in fields.items() if value is not None}
        log.log(level, sentence, extra={FIELDS: known}, stacklevel=2)


@contextmanager
def long_wait(log: logging.Logger, sentence: str, **fields: Any) -> Iterator[None]:
    """Log a warning if the body takes longer than `LONG` seconds."""
    warn = partial(log_event, log, sentence, level=logging.WARNING, **fields)
    timer = asyncio.get_running_loop().call_later(LONG, warn)
    try:
        yield
    finally:
        timer.cancel()


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["error"] = format_error(record.exc_info[1])
        return json_text(json.dumps(line, default=str))


class PlainLines(logging.Formatter):
    """A line for people: `12:00:01 info perdure.relay: delivered | count=3`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        line = f"{at} {record.levelname.lower()} {record.name}: {one_line(_message(record))}"
        if fields := getattr(record, FIELDS, {}):
            line += " | " + " ".join(f"{name}={field(value)}" for name, value in fields.items())
        if record.exc_info and record.exc_info[1]:
            line += "\n" + lines(format_error(record.exc_info[1]))
        return line


class NoteLines(logging.Formatter):
    """A line of a command that ends by itself: `perdure: waits for PostgreSQL (at postgresql://localhost/shop)`."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"perdure: {one_line(_message(record))}"
        if fields := getattr(record, FIELDS, {}):
            line += f" ({', '.join(f'{name} {one_line(value)}' for name, value in fields.items())})"
        if record.exc_info and record.exc_info[1]:
            line += "\n" + lines(format_error(record.exc_info[1]))
        return line


_FORMS = {"json": JsonLines, "text": PlainLines, "notes": NoteLines}


def _message(record: logging.LogRecord) -> str:
    """The text of a record, in one line. An event loop adds the `repr` of an exception in further lines, and pydantic
    that of a value."""
    message = record.getMessage()
    if record.name == "asyncio" or record.name.startswith("temporalio.worker"):
        return message.partition("\n")[0]
    if record.name == "py.warnings" and "Pydantic" in message:
        return "pydantic: a value is not of the type that is declared for it"
    return message


def set_up(kind: str, level: str) -> None:
    """Log to standard error as `kind` (`json`, `text` or `notes`), from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMS[kind]())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
