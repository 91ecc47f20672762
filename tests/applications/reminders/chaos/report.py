"""The report of a run: a table on the terminal, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.applications.reminders.chaos.run import Outcome

_SLOWEST = 5


def show(outcome: Outcome, console: Console) -> None:
    """Counts and times on the terminal."""
    table = Table("what", "", title=f"seed {outcome.wish.seed}: {outcome.whole:.0f} s")
    for what, said in _rows(outcome):
        table.add_row(what, said)
    console.print(table)
    for finding in outcome.verdict.findings:
        console.print(f"[red]{finding.kind}[/red] {finding.who}: {finding.what}", soft_wrap=True)


def write(outcome: Outcome, file: Path) -> None:
    """Write it as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    verdict = outcome.verdict
    whole: dict[str, Any] = {
        "verdict": "bad" if verdict.findings else "good",
        "wish": asdict(outcome.wish),
        "said": [*_rows(outcome)],
        "findings": [asdict(finding) for finding in verdict.findings],
        "waits": [round(seconds, 3) for seconds in sorted(verdict.waits)],
        "ended": [(round(seconds, 3), who) for seconds, who in sorted(verdict.ended)],
    }
    file.write_text(json.dumps(whole, indent=1) + "\n")


def _rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    verdict = outcome.verdict
    kinds = [finding.kind for finding in verdict.findings]
    yield "patients", ", ".join(f"{number} {kind}" for kind, number in outcome.kinds.most_common())
    yield "doses", ", ".join(f"{number} {end}" for end, number in verdict.ends.most_common())
    yield "lost", str(kinds.count("lost"))
    yield "twice", str(kinds.count("twice"))
    yield "other findings", str(len(kinds) - kinds.count("lost") - kinds.count("twice"))
    for what, number in sorted(verdict.bad.items()):
        yield "bad record", f"{number} {what}"
    for why, number in verdict.expired.most_common():
        yield "expired", f"{number} {why}"
    for what, number in verdict.apart.most_common():
        yield "apart", f"{number} {what}"
    yield "due until the provider had it", _times(verdict.waits)
    yield "due until over on record", _times([seconds for seconds, _ in verdict.ended])
    for seconds, who in sorted(verdict.ended, reverse=True)[:_SLOWEST]:
        yield "slowest", f"{seconds:.1f} s {who}"
    yield "signed up in", f"{outcome.sign_up:.1f} s"
    yield "workers killed", f"{outcome.kills}, of {outcome.workers} processes"
    yield "the provider's log", ", ".join(f"{number} {what}" for what, number in sorted(outcome.log.items()))


def _times(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    half, most = (ordered[min(int(len(ordered) * part), len(ordered) - 1)] for part in (0.5, 0.99))
    return f"p50 {half:.1f} s, p99 {most:.1f} s, max {ordered[-1]:.1f} s"
