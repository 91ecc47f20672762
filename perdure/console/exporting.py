"""Lists as files, as CSV or JSON. A cell of CSV never begins as a formula of a spreadsheet does."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any

from starlette.responses import Response, StreamingResponse

from perdure._text.shown import json_text, one_line
from perdure.console.page import View
from perdure.errors import InvalidSetting

MOST = 100_000
"""Rows of one file at most."""
_IN_MEMORY = 2**20
"""Bytes of a file beyond which it is on disk until it is sent."""
_PIECE = 2**16
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


async def exported(view: View, name: str, columns: Sequence[str], rows: AsyncGenerator[Mapping[str, Any]]) -> Response:
    """An answer that a browser saves as a file: CSV, or JSON with one object a line, as the address has it.

    The file is made before it is sent. So an error is an answer of its own, and not the end of a file, and the length
    tells whoever got less. If there are more rows than `MOST`, the name of the file says so: a line would be a row.
    """
    csv_wanted = form_of(view.query) == "csv"
    file = view.until_sent.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115
    file.write(_line(columns).encode() if csv_wanted else b"")
    written = 0
    async with aclosing(rows):
        async for row in rows:
            if written == MOST:
                name += f"-first-{MOST}-of-more"
                break
            line = _line([cell(row[column]) for column in columns]) if csv_wanted else _json(columns, row)
            file.write(line.encode())
            written += 1
    size = file.tell()
    file.seek(0)
    kind, ending = ("text/csv", "csv") if csv_wanted else ("application/x-ndjson", "ndjson")
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"', "Content-Length": str(size)}
    return StreamingResponse(iter(partial(file.read, _PIECE), b""), 200, headers, f"{kind}; charset=utf-8")


def _json(columns: Sequence[str], row: Mapping[str, Any]) -> str:
    picked = {column: row[column] for column in columns}
    return json_text(json.dumps(picked, default=str, ensure_ascii=False)) + "\n"


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL).writerow(cells)
    return line.getvalue()
