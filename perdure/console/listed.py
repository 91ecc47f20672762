"""A list that somebody pastes, such as the lines of a provider's statement: which effects in doubt it names, and the
receipt that a line gives for its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure._operations.consequences import receipt_problem
from perdure._operations.doubts import Doubt, DoubtSelection, find_named
from perdure._store.schema import Connection
from perdure.app import App
from perdure.errors import InvalidSetting

MOST = 20_000
"""Lines of one list."""
_BETWEEN = re.compile(r"[\t,; ]\s*")


@dataclass(slots=True)
class Listed:
    """What a list comes to.

    Attributes:
        found: the effects that are meant, once each.
        receipts: JSON, by the keys of those whose line gives one.
        missing: lines that name nothing of the group.
        several: lines that name more than one: only the key or the token of an effect distinguishes them.
        unusable: lines whose receipt can't be used, with the reason.
    """

    found: dict[str, Doubt] = field(default_factory=dict)
    receipts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    several: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The same list again, of what was found alone, by key."""
        return "\n".join(f"{key}\t{self.receipts[key]}" if key in self.receipts else key for key in self.found)

    @property
    def left_out(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Lines that settle nothing, by what is wrong with them."""
        about = (
            ("not in this group, or no longer in doubt", self.missing),
            ("more than one in doubt has this id: give the key or the token", self.several),
            ("the receipt can't be used", self.unusable),
        )
        return [(what, lines) for what, lines in about if lines]


async def read_list(connection: Connection, group: DoubtSelection, text: str, app: App | None) -> Listed:
    """What the lines name within a group.

    Raises:
        InvalidSetting: it has too many lines.
    """
    lines = list(dict.fromkeys(line for each in text.splitlines() if (line := each.strip())))
    if len(lines) > MOST:
        raise InvalidSetting(f"the list has {len(lines):,} lines, and may have {MOST:,}: settle it in parts")
    named = await find_named(connection, group, [name for line in lines for name, _ in _readings(line)])
    listed = Listed()
    for line in lines:
        _take(listed, line, named, app)
    return listed


def ticked_and_pasted(form: Mapping[str, str]) -> str:
    """The list of a form: the items that are ticked, and the lines that were pasted."""
    ticked = [value for name, value in form.items() if name.startswith("item-")]
    return "\n".join([*ticked, form.get("list", "")])


def _take(listed: Listed, line: str, named: Mapping[str, Sequence[Doubt]], app: App | None) -> None:
    name, receipt = next(((name, rest) for name, rest in _readings(line) if name in named), ("", ""))
    meant = named.get(name, ())
    if len(meant) != 1:
        (listed.several if meant else listed.missing).append(line)
        return
    key = meant[0].key
    if receipt:
        try:
            given = _json(receipt)
        except (ValueError, RecursionError) as error:
            listed.unusable.append(f"{line}: it is no JSON: {error}")
            return
        why = receipt_problem(app, meant[0].effect, given)
        if why is None and listed.receipts.setdefault(key, json.dumps(given)) != json.dumps(given):
            why = "an earlier line gives another one"
        if why is not None:
            listed.unusable.append(f"{line}: {why}")
            return
    listed.found[key] = meant[0]


def _readings(line: str) -> Iterator[tuple[str, str]]:
    """How a line can be read: all of it is a name, or a name and then a receipt."""
    yield _unquoted(line), ""
    parts = _BETWEEN.split(line, maxsplit=1)
    if len(parts) == 2:
        yield _unquoted(parts[0]), parts[1]


def _json(text: str) -> Any:
    """As it is, or in the quotes of a CSV file."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_unquoted(text))


def _unquoted(cell: str) -> str:
    """Without the quotes of CSV, where it has them: those inside stand twice there."""
    cell = cell.strip()
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if quoted else cell
