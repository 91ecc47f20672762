"""Bytes and rows of a sleeping patient, and how late reminders are, beside as many Temporal Schedules.

Run it as `python -m bench.reminders [--patients 1000] [--rounds 1]`. All are due within one minute. Both sides have a
worker process, a dev server with a file, and a provider that accepts at once.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import temporalio.client
import typer
from rich.console import Console
from rich.table import Table

from activities.reminders.contracts.calendar.spread import spread_of
from activities.reminders.contracts.plan import Due, Plan, Rule
from bench.reminders.rig import Held, Rig, number, rig
from bench.reminders.scheduled import Text, schedule_at
from perdure.encryption import Private

WAYS = ("perdure", "schedules")
QUEUE = "scheduled"
LEAD = timedelta(seconds=30)
"""From when all sleep to when the first is due."""
PATIENCE = timedelta(seconds=120)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one side needed.

    Attributes:
        count: of patients.
        before, asleep, after: what was held when there were none, when all were asleep, and when all were reminded.
        late: seconds from due to accepted, sorted.
        cpu: seconds of worker, Temporal and PostgreSQL for that minute.
        signing_up: seconds that it took until all were asleep.
    """

    count: int
    before: Held
    asleep: Held
    after: Held
    late: list[float]
    cpu: tuple[float, float, float]
    signing_up: float

    def sleeper(self, what: str) -> float:
        """Bytes that one more patient takes."""
        more: int = getattr(self.asleep, what) - getattr(self.before, what)
        return more / self.count

    def reminder(self, what: str) -> float:
        """Bytes that one more reminder leaves."""
        more: int = getattr(self.after, what) - getattr(self.asleep, what)
        return more / self.count

    def rows(self, start: Held, end: Held) -> str:
        """Rows of one more, by table."""
        grown = {name: (count - start.rows.get(name, 0)) / self.count for name, count in end.rows.items()}
        return ", ".join(f"{name} {more:.2g}" for name, more in grown.items() if more >= 0.05)

    def quantile(self, share: float) -> float:
        """Of how late they were."""
        return self.late[min(int(len(self.late) * share), len(self.late) - 1)]


def main(
    patients: Annotated[int, typer.Option(help="How many, all due within one minute.", min=1)] = 1_000,
    rounds: Annotated[int, typer.Option(help="How often each way has its turn.", min=1)] = 1,
    cached: Annotated[int | None, typer.Option(help="Workflows in our worker's memory; by default all.")] = None,
) -> None:
    """Measure, and print the table."""
    seen: dict[str, list[Seen]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            # One that has no room for all who sleep is woken by reading its history again.
            room = patients + 500 if cached is None else cached
            going = _by_perdure(patients, room) if way == "perdure" else _by_schedules(patients)
            seen[way].append(asyncio.run(going))
            late = seen[way][-1]
            print(f"{way}: p50 {late.quantile(0.5):.2f} s, p99 {late.quantile(0.99):.2f} s", file=sys.stderr)
    _show(seen)


async def _by_perdure(count: int, cached: int) -> Seen:
    async with rig("perdure.cli", "worker", "workers.reminders.app:app", cached=cached) as made:

        def spread(first: datetime) -> list[datetime]:
            due = Due("daily", first.replace(tzinfo=None), first)
            return [first + spread_of(f"p{patient}", rule(first), due) for patient in range(count)]

        async def asleep(first: datetime, due: list[datetime]) -> None:
            given = Plan(rules=(rule(first),)).model_dump_json()
            rows = [(f"p{patient}", given, number(patient)) for patient in range(count)]
            query = "insert into reminders.patient (id, plan, zone, phone) values ($1, $2, 'UTC', $3)"
            await made.database.executemany(query, rows)
            waiting = "select exists (select from perdure.outbox)"
            while await made.database.fetchval(waiting):  # noqa: ASYNC110 - no notification comes
                await asyncio.sleep(0.2)

        return await _measure(made, count, spread, asleep)


async def _by_schedules(count: int) -> Seen:
    async with rig("bench.reminders.scheduled", QUEUE, cached=0) as made:
        client = await temporalio.client.Client.connect(made.temporal.address)

        def spread(first: datetime) -> list[datetime]:
            return [first + timedelta(seconds=60 * patient // count) for patient in range(count)]

        async def asleep(first: datetime, due: list[datetime]) -> None:
            at_once = asyncio.Semaphore(20)

            async def create(patient: int) -> None:
                text = Text(f"P{patient:07}", number(patient), "It is time to take: Metformin 500 mg.")
                async with at_once:
                    await client.create_schedule(f"s{patient}", schedule_at(due[patient], text, QUEUE))

            await asyncio.gather(*map(create, range(count)))

        return await _measure(made, count, spread, asleep)


def rule(first: datetime) -> Rule:
    """Daily, at this minute; a patient's dose goes within a minute of it, each at a moment of its own."""
    start = first.replace(tzinfo=None)
    return Rule(id="daily", rule="FREQ=DAILY", start=start, what=Private("Metformin"), spread=timedelta(minutes=1))


async def _measure(
    made: Rig,
    count: int,
    spread: Callable[[datetime], list[datetime]],
    asleep: Callable[[datetime, list[datetime]], Awaitable[None]],
) -> Seen:
    """Let all of them sleep, and be due within one minute.

    Args:
        spread: when each is due, from the first moment of that minute on.
        asleep: sets them up, and returns when they sleep.
    """
    before = await made.held()
    # The minute after the one in which the sign-up should be over.
    first = datetime.now(UTC) + LEAD + timedelta(seconds=90 + count / 10)
    first = first.replace(second=0, microsecond=0)
    due, began = spread(first), time.monotonic()
    await asleep(first, due)
    signing_up = time.monotonic() - began
    held = await made.held()
    if datetime.now(UTC) > first:
        raise RuntimeError(f"the sign-up of {count} took {signing_up:.0f} s, longer than was reckoned with")
    await asyncio.sleep((first - datetime.now(UTC)).total_seconds() - 1)
    cpu = made.cpu()
    at = await made.accepted(count, first + timedelta(seconds=60) + PATIENCE)
    used = tuple(late - early for early, late in zip(cpu, made.cpu(), strict=True))
    if len(at) < count:
        raise RuntimeError(f"{count - len(at)} of {count} were not sent:\n{made.log.read_text()[-3000:]}")
    after = await made.held()
    late = sorted((at[number(patient)] - due[patient]).total_seconds() for patient in range(count))
    return Seen(count, before, held, after, late, (used[0], used[1], used[2]), signing_up)


def _show(seen: dict[str, list[Seen]]) -> None:
    console = Console(width=120)
    table = Table("", *WAYS, "ratio, median of the rounds")
    measures = {
        "due to accepted, p50, s": [[each.quantile(0.5) for each in seen[way]] for way in WAYS],
        "p99": [[each.quantile(0.99) for each in seen[way]] for way in WAYS],
        "longest": [[each.late[-1] for each in seen[way]] for way in WAYS],
        "CPU s of that minute: worker": [[each.cpu[0] for each in seen[way]] for way in WAYS],
        "Temporal": [[each.cpu[1] for each in seen[way]] for way in WAYS],
        "PostgreSQL": [[each.cpu[2] for each in seen[way]] for way in WAYS],
        "asleep, each: kB of the worker": [[each.sleeper("worker") / 1000 for each in seen[way]] for way in WAYS],
        "kB of Temporal's memory": [[each.sleeper("temporal") / 1000 for each in seen[way]] for way in WAYS],
        "kB of Temporal's file": [[each.sleeper("temporal_file") / 1000 for each in seen[way]] for way in WAYS],
        "kB of the app's tables": [[each.sleeper("database") / 1000 for each in seen[way]] for way in WAYS],
        "a reminder leaves: kB of Temporal's file": [
            [each.reminder("temporal_file") / 1000 for each in seen[way]] for way in WAYS
        ],
        "kB of the app's tables as well": [[each.reminder("database") / 1000 for each in seen[way]] for way in WAYS],
        "signing up, s": [[each.signing_up for each in seen[way]] for way in WAYS],
    }
    for name, (ours, theirs) in measures.items():
        table.add_row(name, f"{_middle(ours):.2f}", f"{_middle(theirs):.2f}", _ratio(ours, theirs))
    console.print(table)
    for way, [first, *_] in seen.items():
        console.print(f"{way}: rows of one who sleeps: {first.rows(first.before, first.asleep)}")
        console.print(f"{way}: rows that a reminder leaves: {first.rows(first.asleep, first.after)}")


def _middle(figures: Sequence[float]) -> float:
    return statistics.median(figures)


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    pairs = [mine / other for mine, other in zip(ours, theirs, strict=True) if other > 0]
    return f"{_middle(pairs):.2f}" if pairs else "-"


if __name__ == "__main__":
    typer.run(main)
