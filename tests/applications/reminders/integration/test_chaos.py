"""A short run of the chaos of reminders: patients and bad records of each kind, workers killed, a faulty provider.

`python -m tests.applications.reminders.chaos` does the same for minutes, with thousands of patients.
"""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.applications.reminders.chaos import report
from tests.applications.reminders.chaos.bad_records import BAD
from tests.applications.reminders.chaos.patients import Kind
from tests.applications.reminders.chaos.run import Wish, run
from tests.deadline import DEADLINE

WISH = Wish(
    seed=11,
    patients=44,
    lead=1,
    span=1.5,
    every=1.5,
    kills=2,
    faults=0.15,
    silence=2.5,
    pace=0.05,
    window=120,
    brief=10,
    patience=DEADLINE,
    callbacks=False,  # so that nothing but look-ups settles a doubt
    app="tests.applications.reminders.chaos.hasty:app",
)


async def test_each_dose_is_sent_once_or_expires_and_each_bad_record_is_seen_while_workers_are_killed(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> None:
    outcome = await run(WISH, postgres, temporal, database, tmp_path)
    report.write(outcome, tmp_path / "report.json")
    report.show(outcome, Console())

    assert outcome.verdict.findings == []
    assert set(outcome.kinds) == {*BAD, *Kind} - {Kind.WOKEN, Kind.QUIET, Kind.UNDELIVERED}
    assert outcome.verdict.ends.keys() >= {"sent", "refused"}
    assert outcome.kills == 2
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "good"
    assert sum(number for what, number in outcome.log.items() if what.startswith("fault")) >= 3
