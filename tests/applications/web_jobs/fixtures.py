"""What the tests of calling pages stand on: settings, job types, attempts; no database, where none is asked."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from activities.http.names import Names
from activities.web_jobs.calling import call_type
from activities.web_jobs.contracts import Answer, Call
from activities.web_jobs.job_type import JobType
from activities.web_jobs.request import call_of
from activities.web_jobs.resources import Web
from activities.web_jobs.settings import web_settings
from perdure import Attempt, Entity
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock

LOCAL = "127.0.0.0/8"
_numbers = itertools.count(1)


class NoDatabase:
    """Fails the test that asks it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the database was asked: {name}")


class Answers(AbstractResolver):
    """A name server that gives these addresses for each name; a list of several is for one question after the other."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        now = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=0) for each in now.split()
        ]

    async def close(self) -> None:
        """Nothing is open."""


def web(names: AbstractResolver | None = None) -> Web:
    """What a worker would have opened, without a database."""
    pool: Any = NoDatabase()
    return Web(pool, names or Names())


def attempt(seconds: float = 60.0, *, number: int = 1, names: AbstractResolver | None = None) -> Attempt:
    """An attempt that has so many seconds left, of a job of its own."""
    key = Key.of(Entity("web-job", str(next(_numbers))), "call-page")
    return Attempt(key, number, datetime.now(UTC), boot_clock() + seconds, resources=web(names))


def job_type(url: str, **fields: Any) -> JobType:
    """The job type `page`, whose page is at `url`."""
    return JobType.model_validate({"name": "page", "url": url, **fields})


def job(**fields: Any) -> Call:
    """A job of the type `page`."""
    return Call.model_validate({"job": "7", "type": "page", **fields})


async def call(type_: JobType, given: Attempt | None = None, one: Call | None = None) -> Answer:
    """Call the page of a job, as the effect's body does with its type at hand."""
    given, one = given or attempt(), one or job()
    return await call_type(type_, one, call_of(type_, one, given.key, given.headers), given)


@contextmanager
def settings(**given: object) -> Iterator[None]:
    """Let the settings be exactly these, e.g. `origins="*"` for PERDURE_WEB_ORIGINS."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PERDURE_WEB_")}
    _replace({f"PERDURE_WEB_{name.upper()}": str(value) for name, value in given.items()})
    try:
        yield
    finally:
        _replace(before)


def _replace(variables: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("PERDURE_WEB_")]:
        del os.environ[name]
    os.environ.update(variables)
    web_settings.cache_clear()
