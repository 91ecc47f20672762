"""Lists as CSV and JSON, row by row. A cell of CSV never begins as a formula of a spreadsheet does."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from starlette.responses import Response, StreamingResponse

from perdure._text.shown import json_text, one_line
from perdure.errors import InvalidSetting

MOST = 100_000
"""Rows of one file at most."""
FORMULA = ("=", "+", "-", "\N{MINUS SIGN}", "@", "|", "%")
"""What a spreadsheet may take for the beginning of a formula, also as a full-width or small form: such a cell begins
with an apostrophe."""
_NEXT_CELL = re.compile(r";(?= *[^\w\s])")
"""Where a spreadsheet that separates cells by semicolons, as many countries' do, could see a formula begin."""


def cell(value: object) -> str:
    """A value as CSV has it.

    >>> cell("=1+1"), cell("\uff1d1+1"), cell("a;=1+1"), cell(-7), cell(None)
    ("'=1+1", "'\uff1d1+1", "a;'=1+1", '-7', '')
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = value.isoformat() if isinstance(value, datetime) else one_line(value)
    text = _NEXT_CELL.sub(";'", text)
    return f"'{text}" if unicodedata.normalize("NFKC", text[:1]).startswith(FORMULA) else text


def form_of(query: Mapping[str, str]) -> str:
    """The form that an address requests.

    Raises:
        InvalidSetting: there is no such form.
    """
    form = query.get("format", "csv")
    if form not in ("csv", "json"):
        raise InvalidSetting(f"{form!r} is no format: csv or json")
    return form


def exported(form: str, name: str, columns: Sequence[str], rows: AsyncIterator[Mapping[str, Any]]) -> Response:
    """An answer that a browser saves as a file.

    Args:
        form: `csv`, otherwise JSON with one object a line.
    """
    kind = "text/csv" if form == "csv" else "application/x-ndjson"
    body = _csv(columns, rows) if form == "csv" else _json(columns, rows)
    disposition = f'attachment; filename="{name}.{"csv" if form == "csv" else "ndjson"}"'
    return StreamingResponse(body, media_type=f"{kind}; charset=utf-8", headers={"Content-Disposition": disposition})


async def _csv(columns: Sequence[str], rows: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[str]:
    yield _line(columns)
    async for row in rows:
        yield _line([cell(row[column]) for column in columns])


async def _json(columns: Sequence[str], rows: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[str]:
    async for row in rows:
        picked = {column: row[column] for column in columns}
        yield json_text(json.dumps(picked, default=str, ensure_ascii=False)) + "\n"


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL).writerow(cells)
    return line.getvalue()
