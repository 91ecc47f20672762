"""Dosage reminders, watched: a day of fifty patients in eight zones passes in under a minute.

Time is skipped where nothing is due, by Temporal's time-skipping server. All else is real: the worker, PostgreSQL,
HTTP to a stand-in for the telephony provider, and its callbacks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import asyncpg
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from infra.demos.comments import say
from infra.demos.reminders_day import Connection, Passing
from infra.demos.reminders_patients import the_day
from infra.demos.reminders_record import Count, SeenDose, counted, reference, seen_doses
from infra.demos.reminders_tables import show
from infra.demos.served_console import ServedConsole
from infra.quiet import quiet_runtime
from infra.stack import ROOT
from infra.telephony.numbers import GOOD
from infra.telephony.server import ACCOUNT, TOKEN, TelephonyServer
from infra.time_skipping import time_skipping_environment
from perdure import PerdurePlugin, database
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.progress import progress
from perdure.settings import Settings

PATIENTS, FEWEST = 50, 14
SCOPE = "demo"
APP = "workers.reminders.app:app"
PATIENCE = 300.0
"""Seconds after which it gives up."""
TABLES = ROOT / "activities" / "reminders" / "tables.sql"
FILE = ROOT / "build" / "demo-reminders.json"
HOURS_WENT_BY = (
    "{count.hours:g} hours went by in {count.seconds} s: where nothing was due, the server's clock was put forward to\n"
    "the next moment at which something was; there it stood by for all who were due. The counts are in {file}"
)


async def demo(patients: int, keep: bool) -> int:
    """Run it; the exit status."""
    began = time.monotonic()
    forget_settings()
    async with servers() as (dsn, connection, environment, telephony):
        say("PostgreSQL, Temporal's time-skipping server and a stand-in for the telephony provider are up")
        day = the_day(patients, await environment.get_current_time())
        passing = Passing(day, environment, connection, telephony, SCOPE)
        say(f"the day is {day.date:%d %B %Y}, on which New York changes its clocks; the server's clock is put there")
        await passing.go_to(day.begins)
        config = Settings(database_url=dsn, scope=SCOPE, task_queue="demo-reminders", reconciliation_every=0)
        async with working(config, environment, telephony):
            try:
                async with asyncio.timeout(PATIENCE):
                    count, doses = await play(passing, environment, connection, telephony)
            except TimeoutError as error:
                say(f"[red]not over[/red]: {str(error) or f'after {PATIENCE:.0f} s'}")
                return 1
            count = replace(count, seconds=round(time.monotonic() - began, 1))
            FILE.parent.mkdir(exist_ok=True)
            FILE.write_text(json.dumps(asdict(count), indent=2) + "\n")
            show(count, doses)
            say(HOURS_WENT_BY.format(count=count, file=FILE.relative_to(ROOT)))
            if keep:
                await stay(config, environment, [evidence(each, telephony) for each in doses if each.in_doubt])
    return 1 if count.wrong else 0


def forget_settings() -> None:
    """What this shell has set may be for a real provider, with real keys."""
    for name in list(os.environ):
        if name.startswith("PERDURE_") and not name.startswith("PERDURE_TEST_"):
            del os.environ[name]


async def play(
    passing: Passing, environment: WorkflowEnvironment, connection: Connection, telephony: TelephonyServer
) -> tuple[Count, list[SeenDose]]:
    """Sign the patients up, let the day pass, and count."""
    day = passing.day
    await passing.sign_up()
    say(f"{len(day.patients)} rows are inserted, each of which starts the reminders of one patient")
    await passing.pass_by()
    doses = await seen_doses(day, connection, telephony)
    unusable = await connection.fetch("select id, attention from perdure.entity where attention is not null")
    for row in unusable:
        say(f"{row['id']} can't be reminded: {row['attention']}")
    hours = (await environment.get_current_time() - day.begins).total_seconds() / 3600
    return counted(day, doses, telephony, len(unusable), hours), doses


@asynccontextmanager
async def servers() -> AsyncIterator[tuple[str, Connection, WorkflowEnvironment, TelephonyServer]]:
    """All but the worker run for as long as the context lasts."""
    postgres = PostgresServer(durable=False)
    try:
        with progress("starting PostgreSQL"):
            await asyncio.to_thread(postgres.start)
        async with (
            TelephonyServer() as telephony,
            time_skipping_environment(data_converter=pydantic_data_converter, runtime=quiet_runtime()) as environment,
        ):
            connection = await asyncpg.connect(postgres.dsn())
            await database.migrate(connection)
            await connection.execute(TABLES.read_text())
            yield postgres.dsn(), connection, environment, telephony
            await connection.close()
    finally:
        postgres.close()


@asynccontextmanager
async def working(
    config: Settings, environment: WorkflowEnvironment, telephony: TelephonyServer
) -> AsyncIterator[None]:
    """A worker and a receiver of callbacks run for as long as the context lasts."""
    port = free_port()
    os.environ |= {
        "PERDURE_TELEPHONY_API_URL": telephony.origin,
        "PERDURE_TELEPHONY_ACCOUNT_SID": ACCOUNT,
        "PERDURE_TELEPHONY_AUTH_TOKEN": TOKEN,
        "PERDURE_TELEPHONY_SENDER": GOOD,
        "PERDURE_TELEPHONY_CALLBACK_URL": f"http://127.0.0.1:{port}/",
    }
    from activities.telephony.settings import telephony_settings  # the bodies read theirs when they are imported
    from workers.reminders.app import app
    from workers.telephony.callbacks import StatusCallbacks

    plugin = PerdurePlugin(app, config)
    async with (
        asyncpg.create_pool(config.database_url, min_size=0, max_size=5) as pool,
        StatusCallbacks(pool, telephony_settings()).listening("127.0.0.1", port),
        Worker(environment.client, task_queue=config.queue, plugins=[plugin]),
    ):
        await plugin.ready.wait()
        yield


def evidence(dose: SeenDose, telephony: TelephonyServer) -> str:
    """What the provider knows of a dose in doubt, for whoever settles it."""
    wanted = reference(dose.id, "sms")
    found = [f"it has {each.sid}, {each.status}" for each in telephony.accepted if each.reference == wanted]
    return f"  has the provider accepted dose/{dose.id}? In its log {found[0] if found else 'is nothing of it'}"


async def stay(config: Settings, environment: WorkflowEnvironment, doubts: Sequence[str]) -> None:
    """Leave everything up until Ctrl-C, with the console and what is in doubt."""
    from workers.reminders.app import app

    os.environ["TEMPORAL_ADDRESS"] = temporal = environment.client.service_client.config.target_host
    with tempfile.TemporaryDirectory() as folder:
        served = ServedConsole(config, app, Path(folder) / "console")
        say(served.invitation)
        for each in doubts:
            say(each)
        say("  or `perdure show dose ID`, or `select * from reminders.dose order by due`, with")
        say(f"  export PERDURE_DATABASE_URL={config.database_url} PERDURE_SCOPE={SCOPE} PERDURE_APP={APP}")
        say(f"  export TEMPORAL_ADDRESS={temporal}")
        await served.run()


def main() -> None:
    """Entry point of `make demo-reminders`."""
    parser = argparse.ArgumentParser(prog="python -m infra.demos.reminders", description=__doc__)
    parser.add_argument("--patients", type=int, default=PATIENTS, help=f"{PATIENTS} by default")
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    given = parser.parse_args()
    if given.patients < FEWEST:
        parser.error(f"--patients {given.patients}: at least {FEWEST}, each of whom has something to show")
    try:
        sys.exit(asyncio.run(demo(given.patients, given.keep)))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
