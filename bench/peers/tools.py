"""The tools that are compared: how each is set up, run and queried, and which servers it needs."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import subprocess
import sys
import time
import tokenize
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import psycopg

from perdure import database
from perdure.servers.programs import output_of

ROOT = Path(__file__).parents[2]
PROGRAMS = {"Redis": "redis-server", "Restate": "restate-server"}
"""The servers that have to be on PATH."""
RIVER = ROOT / "build" / "with_river"
SOURCE_OF_RIVER = ROOT / "bench" / "peers" / "with_river"
PEERS = ROOT / "build" / "peers-venv" / "bin"

_IN_DOUBT = "select id from perdure.entity where lifecycle = 'order' and attention is not null"


@dataclass(frozen=True)
class Tool:
    """One way to do it.

    Attributes:
        name: its name in the table.
        module: the file, in this package.
        package: the distribution whose version the table shows.
        needs: the servers beside PostgreSQL.
        worker: the command of its worker.
        set_up: prepares the database, given its URL and the environment.
        in_doubt: returns the orders that the tool reports as in doubt.
        writes: whether the file writes the state itself, so that a process can be killed before.
        environment: further environment variables of its processes.
        limit: seconds after a kill for which the end of the orders is awaited.
    """

    name: str
    module: str
    package: str
    needs: tuple[str, ...]
    worker: Sequence[str | Path]
    set_up: Callable[[str, Mapping[str, str]], None] = lambda dsn, environment: None
    in_doubt: Callable[[psycopg.Connection], set[int]] = lambda connection: set()
    writes: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: float = 120.0

    @property
    def python(self) -> Path:
        """The interpreter that has its packages."""
        return Path(sys.executable) if self.package == "perdure" else PEERS / "python"

    def missing(self) -> str | None:
        """Why this machine can't run it; None if it can."""
        servers = [PROGRAMS[server] for server in self.needs if server in PROGRAMS]
        absent = [program for program in servers if not shutil.which(program)]
        if absent:
            return f"not on PATH: {', '.join(absent)}"
        if self.package == "perdure" or (Path(self.worker[0]).exists() and self._installed()):
            return None
        return f"the environment of the peers has no {self.package}; it may need a newer Python"

    def _installed(self) -> bool:
        code = f"import importlib.metadata as m; m.version({self.package!r})"
        return subprocess.run([self.python, "-c", code], check=False, capture_output=True).returncode == 0

    def app(self, first: int, count: int) -> Sequence[str | Path]:
        """The command of the application, which takes `count` orders."""
        return (self.python, "-m", "bench.peers.app", f"bench.peers.{self.module}", str(first), str(count))

    def version(self) -> str:
        """The version that is installed."""
        code = f"import importlib.metadata as m; print(m.version({self.package!r}))"
        return subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    def lines(self) -> int:
        """Lines of code of its file: not empty, no comment, no docstring."""
        return lines_of_code((ROOT / "bench" / "peers" / f"{self.module}.py").read_text())


class River(Tool):
    """River, whose worker and application are one program in Go."""

    def missing(self) -> str | None:
        """See base class."""
        return None if shutil.which("go") else "not on PATH: go"

    def app(self, first: int, count: int) -> Sequence[str | Path]:
        """See base class."""
        return (RIVER, "take", str(first), str(count))

    def version(self) -> str:
        """See base class."""
        command = ["go", "list", "-m", "-f", "{{.Version}}", self.package]
        return output_of(command, SOURCE_OF_RIVER).strip().removeprefix("v")

    def lines(self) -> int:
        """Lines of code above what is code of the bench, in other tools' `shop.py` and `app.py`."""
        source = (SOURCE_OF_RIVER / "main.go").read_text()
        own, mark, _ = source.partition("// What bench/peers/shop.py")
        assert mark
        return sum(bool(line.strip()) and not line.lstrip().startswith("//") for line in own.splitlines())


def lines_of_code(source: str) -> int:
    """Count the lines that hold code: neither empty lines nor comments nor docstrings count."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    begins = True  # a statement; a string that is a whole statement is a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in ignored:
            begins = begins or token.type == tokenize.NEWLINE
        elif not (begins and token.type == tokenize.STRING):
            lines |= set(range(token.start[0], token.end[0] + 1))
            begins = False
    return len(lines)


def _migrate(dsn: str, environment: Mapping[str, str]) -> None:
    async def migrate() -> None:
        connection = await asyncpg.connect(dsn)
        await database.migrate(connection)
        await connection.close()

    asyncio.run(migrate())


def _apply(*command: str | Path) -> Callable[[str, Mapping[str, str]], None]:
    def apply(dsn: str, environment: Mapping[str, str]) -> None:
        output_of([str(part).format(dsn=dsn) for part in command], ROOT, environment)

    return apply


def _build_river(dsn: str, environment: Mapping[str, str]) -> None:
    output_of(["go", "build", "-o", str(RIVER), "."], SOURCE_OF_RIVER, environment)
    output_of([str(RIVER), "migrate"], ROOT, environment)


def _register(dsn: str, environment: Mapping[str, str]) -> None:
    """Register the service with Restate's server. The service must run for that."""
    body = json.dumps({"uri": f"http://{environment['RESTATE_SERVICE']}"}).encode()
    url, headers = f"{environment['RESTATE_ADMIN']}/deployments", {"Content-Type": "application/json"}
    with subprocess.Popen(_RESTATE, cwd=ROOT, env=dict(environment), stderr=subprocess.DEVNULL) as service:
        try:
            for _ in range(100):
                with suppress(OSError):
                    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10).close()
                    return
                time.sleep(0.2)
            raise TimeoutError("Restate's server did not accept the service within 20 s")
        finally:
            service.kill()


def _parked(connection: psycopg.Connection) -> set[int]:
    return {int(row[0]) for row in connection.execute(_IN_DOUBT)}


_APP = "--app=bench.peers.with_procrastinate.app"
_RESTATE = (PEERS / "python", "-m", "bench.peers.with_restate")
_CELERY = (PEERS / "celery", "-A", "bench.peers.with_celery", "worker", "--concurrency=8")
TOOLS = (
    Tool(
        "Perdure",
        "with_perdure",
        "perdure",
        ("Temporal",),
        (sys.executable, "-m", "perdure.cli", "worker", "bench.peers.with_perdure"),
        set_up=_migrate,
        in_doubt=_parked,
        writes=False,
    ),
    Tool(
        "plain Temporal",
        "with_temporal",
        "temporalio",
        ("Temporal",),
        (PEERS / "python", "-m", "bench.peers.with_temporal"),
    ),
    Tool(
        "DBOS",
        "with_dbos",
        "dbos",
        (),
        (PEERS / "python", "-m", "bench.peers.with_dbos"),
        set_up=_apply(PEERS / "dbos", "migrate", "--sys-db-url", "{dsn}"),
    ),
    Tool(
        "Procrastinate",
        "with_procrastinate",
        "procrastinate",
        (),
        (PEERS / "procrastinate", _APP, "worker", "--concurrency=20"),
        set_up=_apply(PEERS / "procrastinate", _APP, "schema", "--apply"),
    ),
    Tool(
        "Oban",
        "with_oban",
        "oban",
        (),
        (PEERS / "python", "-m", "bench.peers.with_oban"),
        set_up=_apply(PEERS / "oban", "install", "--dsn", "{dsn}"),
    ),
    River("River", "with_river", "github.com/riverqueue/river", (), (RIVER, "work"), set_up=_build_river),
    Tool("Restate", "with_restate", "restate_sdk", ("Restate",), _RESTATE, set_up=_register),
    Tool("Celery, defaults", "with_celery", "celery", ("Redis",), _CELERY, limit=40.0),
    Tool("Celery, `acks_late`", "with_celery", "celery", ("Redis",), _CELERY, environment={"CELERY_ACKS_LATE": "1"}),
)
