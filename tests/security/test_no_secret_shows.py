"""Secrets that are configured show nowhere: in no command line, log, message or traceback, whatever fails."""

from __future__ import annotations

import base64
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psutil
import pytest
import typer.main

from perdure.cli import cli
from perdure.servers.ports import free_port
from tests.apps.bookings import LookupBooking
from tests.apps.contracts import Booking
from tests.deadline import in_time
from tests.forked import Forked, run_each
from tests.world import FreshWorkerProcess, World

APP = "tests.apps.bodies:app"
MARK = "M4RKED"
KEY = base64.b64encode(MARK.encode().ljust(32, b"k")).decode()
SECRETS = {
    "PERDURE_KEYS": f"first:{KEY}",
    "PERDURE_MAIL_USERNAME": "mailer",
    "PERDURE_MAIL_PASSWORD": f"{MARK}-mail",
    "PERDURE_MAIL_SECRET": f"{MARK}-of-message-ids-0123456789abcdef",
    "PERDURE_WEB_CALLBACK_SECRET": f"{MARK}-of-callbacks-0123456789abcdef",
    "PERDURE_TELEPHONY_AUTH_TOKEN": f"{MARK}-telephony",
    "PERDURE_TELEPHONY_API_KEY_SECRET": f"{MARK}-telephony-key",
    "PGPASSWORD": f"{MARK}-pg",
    "TEMPORAL_API_KEY": f"{MARK}-temporal",
    "TEMPORAL_GRPC_META_X_TOKEN": f"{MARK}-metadata",
    "TEMPORAL_TLS": "false",
}
WAITS = ("up",)
"""Waits for PostgreSQL for ever, and starts servers where that answers."""
MARKS = (MARK, KEY, KEY[:12], base64.b64encode(MARK.encode()).decode().rstrip("="), MARK.encode().hex())


def shown_in(text: str) -> list[str]:
    """The lines that hold a secret, in plain or as they are written somewhere."""
    return [line for line in text.splitlines() if any(mark in line for mark in MARKS)]


def command_lines() -> Iterator[str]:
    """Of all processes of this machine, as `ps` shows them to everybody."""
    for process in psutil.process_iter():
        try:
            yield " ".join(process.cmdline())
        except psutil.Error:
            continue


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each command as its help shows it in an example, with an app and a lifecycle that are there."""
    if hasattr(group, "commands"):
        for name, each in group.commands.items():
            yield from commands(each, (*path, name))
        return
    example = re.sub(r"shop(\.app)?:app", APP, group.epilog.partition("perdure ")[2].partition(" > ")[0])
    known = {"order": "lookup", "/srv/archive": "archive"}
    if path != WAITS:
        yield tuple(known.get(word, word) for word in shlex.split(example))


def with_password(dsn: str, password: str) -> str:
    """The URL with a password of the role."""
    return dsn.replace("postgres@", f"postgres:{password}@")


@pytest.fixture
def secrets(world: World) -> Mapping[str, str]:
    """An environment with a secret wherever one can be."""
    return {**world.environment(), **SECRETS, "PERDURE_DATABASE_URL": with_password(world.dsn, f"{MARK}-database")}


async def test_a_worker_and_a_relay_that_run_show_none(world: World, secrets: Mapping[str, str]) -> None:
    with_relay = {**secrets, "PERDURE_RELAY": "false", "PERDURE_LOG_LEVEL": "debug"}
    worker = FreshWorkerProcess(world, APP, with_relay)
    world.workers.append(worker)
    await worker.start()
    relay = Forked(["services", APP, "relay"], {**secrets, "PERDURE_LOG": "json"}, world.folder / "relay.log")
    await world.client.start(LookupBooking, "a", Booking())
    assert await world.ended("lookup", "a") == "done"
    lines = list(command_lines())
    assert any("perdure.cli worker" in line for line in lines)
    assert shown_in("\n".join(lines)) == []
    assert await worker.stop() == 0
    relay.send_signal(signal.SIGTERM)
    assert await relay.wait() == 0
    assert shown_in(worker.text() + (world.folder / "relay.log").read_text()) == []


FAILURES: dict[str, Callable[[World], dict[str, str]]] = {
    "no PostgreSQL": lambda world: {"PERDURE_DATABASE_URL": f"postgresql://ann:{MARK}@127.0.0.1:{free_port()}/shop"},
    "no such database": lambda world: {"PERDURE_DATABASE_URL": with_password(world.postgres.dsn("none"), MARK)},
    "no TLS": lambda world: {"PERDURE_DATABASE_URL": with_password(world.dsn, MARK) + f"?sslmode=require&x={MARK}"},
    "a URL that can't be read": lambda world: {"PERDURE_DATABASE_URL": f"postgresql://ann:{MARK}/x?{MARK}@db/shop"},
    "no URL": lambda world: {"PERDURE_DATABASE_URL": f"mysql://ann:{MARK}@db/shop"},
    "no Temporal": lambda world: {"TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}"},
    "Temporal without TLS": lambda world: {"TEMPORAL_TLS": "true"},
    "metadata that can't be sent": lambda world: {"TEMPORAL_GRPC_META_X_TOKEN": f"{MARK}\n"},
    "keys that can't be used": lambda world: {"PERDURE_KEYS": f"{MARK}:{KEY},{KEY}:{MARK}"},
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_command_that_fails_shows_none(world: World, secrets: Mapping[str, str], failure: str) -> None:
    environment = {**secrets, **FAILURES[failure](world), "PERDURE_LOG_LEVEL": "debug", "PERDURE_APP": APP}
    logs = {words: world.folder / f"{number}.log" for number, words in enumerate(commands(typer.main.get_command(cli)))}
    await in_time(run_each(list(logs), environment, list(logs.values())))
    assert [(words, line) for words, log in logs.items() for line in shown_in(log.read_text())] == []


async def test_a_machine_that_waits_for_its_database_shows_none(world: World, secrets: Mapping[str, str]) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    environment = {
        **secrets,
        "PERDURE_DATABASE_URL": f"postgresql://ann:{MARK}@{nobody}/shop",
        "PERDURE_ADMIN_DATABASE_URL": f"postgresql://admin:{MARK}@{nobody}/postgres",
        "PERDURE_LOG_LEVEL": "debug",
    }
    log = world.folder / "up.log"
    machine = Forked(["up", APP, "--state", str(world.folder / "state")], environment, log)
    await world.until(lambda: log.exists() and "waits for PostgreSQL" in log.read_text(), "it waits")
    machine.send_signal(signal.SIGTERM)
    await machine.wait()
    assert shown_in(log.read_text()) == []
