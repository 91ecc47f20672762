"""What is wrong, in words, the worst first: a pure function of the overview and of what Temporal answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from perdure._operations.durations import shown
from perdure._text.shown import entity_name

LATE = 30.0
"""Seconds after which a delivery or a task waits too long."""
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a person should know.

    Attributes:
        kind: `temporal`, `build`, `queue`, `doubts`, `rejected`, `attention`, `stuck`, `relay`, `rows`, `findings` or
            `reconciliation`.
        lifecycle, state, effect: which ones it is about.
    """

    kind: str
    sentence: str
    lifecycle: str | None = None
    state: str | None = None
    effect: str | None = None


def problems(
    seen: Mapping[str, Any], queues: Sequence[Mapping[str, Any]], builds: Sequence[Mapping[str, Any]] = ()
) -> list[Problem]:
    """All of them, the worst first.

    Args:
        seen: as `read_overview` gives it.
        queues: as `read_queues` gives them; none = they were not read.
        builds: as `read_builds` gives them.
    """
    unserved = [each for each in builds if each["must_stay"] and each["open"] and not each["workers"]]
    delays = [*_temporal(queues), *_builds(unserved), *_queues(queues, "" if unserved else ": its workers are behind")]
    found = [*delays, *_doubts(seen), *_rejected(seen), *_attention(seen), *_stuck(seen)]
    return [*found, *_delivery(seen), *_findings(seen)]


def refusal(row: Mapping[str, Any]) -> str:
    """The row of the app that refuses a state, its entity, and the reason.

    Args:
        row: with `lifecycle`, `id`, `app_table` and `error`.
    """
    return f"{row['app_table']} can't show the state of {entity_name(row['lifecycle'], row['id'])}: {row['error']}"


def _temporal(queues: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if errors := [each["error"] for each in queues if each["error"]]:
        yield Problem("temporal", f"Temporal does not answer, so nothing goes on: {errors[0].partition(' (')[0]}")


def _builds(unserved: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    for each in unserved:
        need = _count(each["open"], "open lifecycle needs", "open lifecycles need")
        yield Problem("build", f"{need} build {each['deployment']}:{each['build']}, and no worker of it polls")


def _queues(queues: Sequence[Mapping[str, Any]], behind: str) -> Iterator[Problem]:
    for each in queues:
        if each["error"] is None and each["backlog"] and not each["pollers"]:
            yield Problem(
                "queue",
                f"{_count(each['backlog'], 'task waits', 'tasks wait')} in {each['task_queue']} ({each['kind']}), the "
                f"oldest for {shown(each['backlog_seconds'])}, and no worker polls it",
            )
        elif each["error"] is None and each["backlog_seconds"] > LATE:
            yield Problem(
                "queue",
                f"{_count(each['backlog'], 'task waits', 'tasks wait')} in {each['task_queue']} ({each['kind']}), the "
                f"oldest for {shown(each['backlog_seconds'])}{behind}",
            )


def _doubts(seen: Mapping[str, Any]) -> Iterator[Problem]:
    for row in seen["in_doubt"]:
        if row["parked"]:
            what = _count(row["parked"], "entity waits", "entities wait")
            yield Problem(
                "doubts",
                f"{what} for a person: {row['effect']} of {row['lifecycle']} is in doubt, the oldest for "
                f"{shown(row['oldest_parked_seconds'])}",
                lifecycle=row["lifecycle"],
                effect=row["effect"],
            )


def _rejected(seen: Mapping[str, Any]) -> Iterator[Problem]:
    if count := seen["outbox"]["rejected"]:
        yield Problem("rejected", f"{_count(count, 'start or message', 'starts or messages')} could not be delivered")


def _attention(seen: Mapping[str, Any]) -> Iterator[Problem]:
    rows = [row for row in seen["open"] if row["attention"] > row["parked"]]
    for lifecycle, those in groupby(rows, lambda row: row["lifecycle"]):
        counts = {row["state"]: row["attention"] - row["parked"] for row in those}
        more, states = sum(counts.values()), ", ".join(counts)
        needs = "needs" if more == 1 else "need"
        yield Problem("attention", f"{more:,} of {lifecycle} {needs} a person ({states})", lifecycle=lifecycle)


def _stuck(seen: Mapping[str, Any]) -> Iterator[Problem]:
    for row in seen["open"]:
        if row["stuck"]:
            yield Problem(
                "stuck",
                f"{row['stuck']:,} of {row['lifecycle']} {'has' if row['stuck'] == 1 else 'have'} been "
                f"{row['state']} for longer than declared, the oldest for "
                f"{shown(row['oldest_seconds'])}",
                lifecycle=row["lifecycle"],
                state=row["state"],
            )


def _delivery(seen: Mapping[str, Any]) -> Iterator[Problem]:
    outbox = seen["outbox"]
    if outbox["lag_seconds"] > LATE:
        yield Problem(
            "relay",
            f"{_count(outbox['waiting'], 'delivery waits', 'deliveries wait')} for a relay, the oldest for "
            f"{shown(outbox['lag_seconds'])}",
        )
    if outbox["rows_behind"]:
        behind = _count(outbox["rows_behind"], "row of the app shows", "rows of the app show")
        refused = f". {refusal(row)}" if (row := outbox["refused_row"]) else ""
        yield Problem("rows", f"{behind} an older state than the record{refused}")


def _findings(seen: Mapping[str, Any]) -> Iterator[Problem]:
    for row in seen["findings"]:
        if row["left_over"]:
            left = _count(row["left_over"], "finding is", "findings are")
            yield Problem("findings", f"{left} left for a person: {row['kind']}")
    last = seen["reconciliation"]
    if last is not None and last["ended_at"] is None and last["age_seconds"] > _DAY:
        yield Problem("reconciliation", f"the reconciliation of {shown(last['age_seconds'])} ago has not ended")
    elif last is not None and last["age_seconds"] > 2 * _DAY:
        yield Problem("reconciliation", f"the last reconciliation was {shown(last['age_seconds'])} ago")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
