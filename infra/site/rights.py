"""The rights of each kind of role on tables and functions, as `perdure grant` gives them: a page of the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from perdure._store import schema
from perdure._store.schema.kinds import RIGHTS, Kind

LETTERS = {"select": "r", "insert": "a", "update": "w", "delete": "d"}
_TABLE = re.compile(r"^create table perdure\.(\w+)", re.MULTILINE | re.IGNORECASE)
_FUNCTION = re.compile(r"^create or replace function perdure\.(\w+)", re.MULTILINE | re.IGNORECASE)
_HEAD = """# Rights on tables and functions

`perdure grant` gives these rights without `--lifecycle` and `--tenant`. `r` is select, `a` insert, `w` update, `d`
delete, `X` execute. `NAME_any` serves every entity, `NAME_scoped` those that the role has a permission for, and `NAME`
calls the one that its caller may execute. A limited role has `NAME_scoped` instead of `NAME_any`, and no right on
tables that hold no entities. A role of the kind `callbacks` has `signal_scoped` for the lifecycles that it was granted.

"""


def rights() -> dict[str, dict[Kind, str]]:
    """The rights of each kind of role, by the table or function: `table ident`, `function start`."""
    tables = sorted(set(_names(_TABLE, "*.sql")))
    functions = sorted(set(_names(_FUNCTION, "functions/*.sql")))
    found: dict[str, dict[Kind, str]] = {f"table {name}": {} for name in tables}
    found |= {f"function {name}": {} for name in functions}
    for kind, given in RIGHTS.items():
        for name in tables:
            found[f"table {name}"][kind] = "".join(LETTERS[verb] for verb in given.tables.get(name, given.usual))
        for name in given.names(functions) if kind is not Kind.CALLBACKS else ():
            found[f"function {name}"][kind] = "X"
    return found


def _names(pattern: re.Pattern[str], files: str) -> Iterator[str]:
    for file in Path(schema.__file__).parent.glob(files):
        yield from pattern.findall(file.read_text("utf-8"))


def matrix(by_object: Mapping[str, Mapping[Kind, str]]) -> str:
    """The table in Markdown: an object a row, a kind of role a column; objects with the same rights share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for thing, may in sorted(by_object.items()):
        what, _, name = thing.partition(" ")
        rows.setdefault((what, *(may.get(kind, "") for kind in Kind)), []).append(f"`{name}`")
    lines = [f"| | {' | '.join(Kind)} |", f"|---|{'---|' * len(Kind)}"]
    for key, names in sorted(rows.items(), key=lambda row: (row[0][0] != "table", row[1])):
        what, *cells = key
        plural = what if len(names) == 1 else f"{what}s"
        lines.append(f"| {plural} {', '.join(names)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page of the reference."""
    return _HEAD + matrix(rights())
