"""What happened to an entity, in one line after the other: a pure function of its record and of Temporal's history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from perdure._operations.entity import Row, Seen
from perdure._operations.history import Try


@dataclass(frozen=True, slots=True)
class Entry:
    """One line.

    Attributes:
        kind: `state`, `record` for what somebody or something put on record within a state, `attempt`, `look-up` or
            `message`.
        what: the state, the effect or the message.
        took: seconds: how long the state lasted, or the call took; None = not known.
        begins: seconds from the first line to this one.
        outcome: of an attempt or a look-up; of a message, how far it is.
        by: the person, the worker or nobody.
    """

    at: datetime
    kind: str
    what: str
    generation: int | None = None
    took: float | None = None
    begins: float = 0.0
    outcome: str | None = None
    why: str | None = None
    by: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lines, and how long they span.

    Attributes:
        span: seconds from the first line to now, or to the end.
    """

    entries: tuple[Entry, ...]
    span: float


def timeline(seen: Seen) -> Timeline:
    """Its lines, the oldest first."""
    record = seen.record
    now = record.row["now"]
    final = record.row["final"] is not None
    found = [*_states(record.transitions, now, final), *map(_try, seen.history.tries), *map(_message, record.messages)]
    found.sort(key=lambda each: each.at)
    if not found:
        return Timeline((), 0.0)
    first, end = found[0].at, record.transitions[-1]["at"] if final and record.transitions else now
    placed = tuple(_placed(each, first) for each in found)
    return Timeline(placed, max((max(end, found[-1].at) - first).total_seconds(), 0.001))


def way(transitions: list[Row]) -> list[str]:
    """The states that it was in, in order, without repeats of the same one; of its newest generation."""
    newest = transitions[-1]["generation"] if transitions else 0
    names = [row["state"] for row in transitions if row["generation"] == newest and row["state"] is not None]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


def _states(transitions: list[Row], now: datetime, final: bool) -> Iterator[Entry]:
    for number, row in enumerate(transitions):
        before = transitions[number - 1] if number else None
        enters = before is None or (before["state"], before["generation"]) != (row["state"], row["generation"])
        later = [each for each in transitions[number + 1 :] if each["state"] != row["state"]]
        lasts = ((later[0]["at"] if later else now) - row["at"]).total_seconds()
        yield Entry(
            row["at"],
            "state" if enters else "record",
            row["state"] or "",
            row["generation"],
            took=lasts if enters and (later or not final) else None,
            why=row["why"] or row["attention"],
            by=row["made_by"],
            role=row["session_role"] if row["made_by"] else None,
        )


def _try(each: Try) -> Entry:
    return Entry(
        each.began or each.ordered,
        each.kind,
        f"{each.effect}: {each.kind} {each.number}",
        each.generation,
        took=each.took,
        outcome=each.outcome.replace("_", " "),
        why=each.why,
        by=each.worker or ("inline" if each.inline else None),
    )


def _message(row: dict[str, Any] | Row) -> Entry:
    how = "delivered" if row["delivered_at"] else row["error"] or "waits"
    took = (row["delivered_at"] - row["created_at"]).total_seconds() if row["delivered_at"] else None
    return Entry(row["created_at"], "message", f"{row['kind']} {row['name']}", row["generation"], took, outcome=how)


def _placed(entry: Entry, first: datetime) -> Entry:
    return replace(entry, begins=(entry.at - first).total_seconds())
