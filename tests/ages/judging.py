"""What was ever on record, and whether the archive and the database hold it still."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tests.ages.calendar import detached
from tests.integration.retention.months import Connection, pq

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = dict[tuple[Any, ...], Row]
KEYS = {
    "transition": ("lifecycle", "id", "version", "at"),
    "finished": ("lifecycle", "id", "generation", "finished_at"),
    "effect": ("key",),
}
_JSON = ("input", "snapshot", "receipt", "lookup_hint", "effect")
_TIMES = ("at", "finished_at", "created_at", "first_at", "attempt_at", "deadline", "earlier_doubt", "earlier_deadline")
_OUTCOME = ("status", "receipt", "lookup_hint", "why", "settled_by", "token", "attempts")
_ALL = ("ident", "entity", "message", "outbox", "rejected", "effect", "kept_effect", "carried_transition", "month")


@dataclass(slots=True)
class Record:
    """All rows that were ever seen, but those of what was forgotten or given up.

    Attributes:
        given_up: months that were dropped without an export, as `2020-01`.
    """

    transition: Rows = field(default_factory=dict)
    finished: Rows = field(default_factory=dict)
    effect: Rows = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)

    def add(self, found: dict[str, Rows]) -> None:
        """Put down what is there now."""
        for table, rows in found.items():
            getattr(self, table).update(rows)

    def forget(self, entity_id: str) -> None:
        """Nothing of it is to be found any more."""
        for table in KEYS:
            kept = {key: row for key, row in getattr(self, table).items() if row["id"] != entity_id}
            setattr(self, table, kept)

    def judge(self, found: dict[str, Rows], archive: dict[str, Rows]) -> list[str]:
        """What is missing, or has become something else."""
        wrong = []
        for table in ("transition", "finished"):
            for key, row in getattr(self, table).items():
                stands = [rows[table][key] for rows in (found, archive) if key in rows[table]]
                if not stands and not self._is_given_up(row):
                    wrong.append(f"lost from {table}: {row}")
                wrong += [f"changed in {table}: {row} -> {other}" for other in stands if other != row]
        later = _settlements(found["transition"] | archive["transition"])
        for (key,), row in self.effect.items():
            newest = found["effect"].get((key,)) or later.get(key) or archive["effect"].get((key,))
            if newest is None:
                if not self._is_given_up(self._end_of(row)):
                    wrong.append(f"lost: {row}")
            elif _outcome(newest) != _outcome(row):
                wrong.append(f"changed: {_outcome(row)} -> {_outcome(newest)}")
        return wrong

    def _end_of(self, effect: Row) -> Row:
        ends = [
            row for row in self.finished.values() if all(row[name] == effect[name] for name in ("id", "generation"))
        ]
        return ends[-1] if ends else {}

    def _is_given_up(self, row: Row) -> bool:
        return str(row.get("at", row.get("finished_at", "")))[:7] in self.given_up


def _settlements(transitions: Rows) -> dict[str, Row]:
    """The newest transition that holds an effect, by its key."""
    found = sorted(
        (row for row in transitions.values() if row.get("effect")), key=lambda row: (row["at"], row["version"])
    )
    return {row["effect"]["key"]: row["effect"] for row in found}


def _outcome(effect: Row) -> Row:
    return {name: effect[name] for name in _OUTCOME}


async def on_record(db: Connection) -> dict[str, Rows]:
    """What the database holds: in its months, in those that are half dropped, and what was carried over."""
    found: dict[str, Rows] = {}
    sources = {"transition": ["transition", "carried_transition"], "finished": ["finished"], "effect": ["effect"]}
    for name in await detached(db):
        sources[name[:-8]].append(name)
    for table, names in sources.items():
        rows = [row[0] for name in names for row in await db.fetch(f"select to_jsonb(x) from perdure.{name} x")]
        found[table] = _by_key(table, [json.loads(row) for row in rows])
    return found


def archived(folder: Path) -> dict[str, Rows]:
    """What the files of an archive hold."""
    found: dict[str, Rows] = {table: {} for table in KEYS}
    for path in sorted(folder.glob("*.parquet")):
        table = path.name.partition("-")[0]
        found[table] |= _by_key(table, [_plain(row) for row in pq.read_table(path).to_pylist()])
    return found


def mentions(path: Path, entity_id: str) -> bool:
    """Whether a file holds something of an entity, or is half written."""
    if path.suffix != ".parquet":
        return True
    return entity_id in pq.read_table(path)["id"].to_pylist()


def _by_key(table: str, rows: list[Row]) -> Rows:
    found: Rows = {}
    for row in rows:
        for name in ("xid", "seq"):  # numbers of the feed
            row.pop(name, None)
        key = tuple(row[name] for name in KEYS[table])
        assert found.setdefault(key, row) == row, f"twice, with different content: {row} and {found[key]}"
    return found


def _plain(row: Row) -> Row:
    """As PostgreSQL writes it as JSON, in UTC."""
    for name in _JSON:
        if isinstance(row.get(name), str) and not (name == "effect" and "key" in row):
            row[name] = json.loads(row[name])
    for name in _TIMES:
        if row.get(name) is not None:
            text = row[name].isoformat()
            row[name] = text[:-6].rstrip("0") + text[-6:] if "." in text else text
    return row


async def all_rows(db: Connection) -> list[str]:
    """Every row, as text, with the table that it is in."""
    names = [*_ALL, "finished", "transition", *await detached(db)]
    one = " union all ".join(f"select x.tableoid::regclass::text || x::text from perdure.{name} x" for name in names)
    return sorted(row[0] for row in await db.fetch(one))
