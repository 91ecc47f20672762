"""The PostgreSQL inside the place: Debian's, with the application's database and roles."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from bench.peers.rig import TABLE
from bench.up.idle import family
from bench.up.place import Place
from perdure.servers.ports import free_port

_PASSWORD = "of-the-bench"
_CLUSTER = ("15", "main")
_CLIENTS = """
    select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
"""


class Postgres:
    """It listens on 127.0.0.1 alone."""

    def __init__(self, place: Place) -> None:
        self._place, self.port = place, free_port()

    def start(self) -> None:
        """Start it, with a role and a database of the application."""
        settings = self._place.root / "etc/postgresql" / "/".join(_CLUSTER) / "postgresql.conf"
        settings.write_text(re.sub(r"(?m)^port = .*", f"port = {self.port}", settings.read_text()))
        self._place.run("pg_ctlcluster", *_CLUSTER, "start")
        self._sql(f"alter role postgres password '{_PASSWORD}'; create role shop login password '{_PASSWORD}'")
        self.renew()

    def renew(self) -> None:
        """An empty database of the application, and nothing of Temporal's."""
        for each in ("shop", "temporal", "temporal_visibility"):
            self._sql(f"drop database if exists {each} with (force)")
        self._sql("drop role if exists temporal")
        self._sql("create database shop owner shop")
        with psycopg.connect(self.url("shop", "shop"), autocommit=True) as connection:
            connection.execute(TABLE)

    def stop(self) -> None:
        """Stop it."""
        self._place.run("pg_ctlcluster", *_CLUSTER, "stop", "-m", "fast")

    def url(self, role: str, database: str) -> str:
        """A URL for a role."""
        return f"postgresql://{role}:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def processes(self) -> list[psutil.Process]:
        """All of them."""
        file = self._place.root / "var/lib/postgresql" / "/".join(_CLUSTER) / "postmaster.pid"
        return family(int(file.read_text().splitlines()[0]))

    def connections(self) -> int:
        """Of clients."""
        with psycopg.connect(self.url("postgres", "postgres")) as connection:
            found = connection.execute(_CLIENTS).fetchone()
        assert found is not None
        return int(found[0])

    def _sql(self, statements: str) -> None:
        each = ("psql", "--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-p", str(self.port), "-c", statements)
        self._place.run(*each, user="postgres")


@contextmanager
def running(postgres: Postgres) -> Iterator[Postgres]:
    """Run it until the block ends."""
    postgres.start()
    try:
        yield postgres
    finally:
        postgres.stop()


def until_written(log: Path, text: str, patience: float) -> float:
    """Seconds until a process has written this.

    Raises:
        TimeoutError: it has not in time; with its last lines.
    """
    began = time.monotonic()
    while text not in log.read_text(errors="replace"):
        if time.monotonic() - began > patience:
            raise TimeoutError(f"{text!r} was not written within {patience:.0f} s:\n{log.read_text()[-3000:]}")
        time.sleep(0.05)
    return time.monotonic() - began
