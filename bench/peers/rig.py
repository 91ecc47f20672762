"""The servers and processes of one tool, and the scenarios in which one of them is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.peers import shop
from bench.peers.judge import Judged, judge
from bench.peers.tools import PROGRAMS, ROOT, Tool
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

TABLE = """
    create table orders (
        id bigint primary key, state text not null default 'new', charged_at timestamptz,
        created_at timestamptz not null default clock_timestamp());
    create function note_charged() returns trigger language plpgsql as $$
        begin new.charged_at := clock_timestamp(); return new; end $$;
    create trigger note_charged before update on orders for each row
        when (new.state = 'charged' and old.state <> 'charged') execute function note_charged();
"""
_ENDED = """
    select id, extract(epoch from charged_at)::float8 from orders where state = 'charged' and id between %s and %s
"""
_DELAY = """
    select percentile_cont(0.5) within group (order by extract(epoch from charged_at - created_at))
    from orders where id >= %s
"""
RULES: dict[str, dict[str, float | None]] = {
    "keeps": {"window": None, "lag": None},
    "forgets": {"window": shop.WINDOW.total_seconds(), "lag": None},
    "look-up": {"window": 0.0, "lag": shop.LAG.total_seconds()},
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kill.

    Attributes:
        side: what the outside server can do.
        place: where the process is held and killed.
        outage: seconds until a new worker starts.
    """

    side: str
    place: str
    outage: float = 0.0


LONG = shop.WINDOW.total_seconds() + 5
SCENARIOS = (
    *(Scenario("keeps", place) for place in ("before-request", "reply-held", "after-reply", "before-write")),
    Scenario("keeps", "after-commit"),
    Scenario("forgets", "reply-held", outage=LONG),
    Scenario("look-up", "reply-held"),
)


class Rig:
    """The servers of one tool; made by `rig`."""

    def __init__(self, tool: Tool, folder: Path) -> None:
        self.tool, self.folder = tool, folder
        self.postgres = PostgresServer()
        self.servers: dict[str, int] = {}
        self._port, self._last = free_port(), 0
        self._environment: dict[str, str] = {}
        self._connection: psycopg.Connection

    def open(self, until: ExitStack) -> None:
        """Start the servers, and prepare the database."""
        until.enter_context(self.postgres)
        self.servers["PostgreSQL"] = self.postgres.pid
        self._environment = (
            os.environ
            | self.tool.environment
            | {
                "PYTHONPATH": str(ROOT),
                "SHOP_URL": f"http://127.0.0.1:{self._port}",
                "SHOP_DATABASE_URL": self.postgres.dsn(),
                "PERDURE_DATABASE_URL": self.postgres.dsn(),
                "DBOS_SYSTEM_DATABASE_URL": self.postgres.dsn(),
            }
        )
        if "Temporal" in self.tool.needs:
            temporal = until.enter_context(TemporalServer())
            self.servers["Temporal"] = temporal.pid
            self._environment["TEMPORAL_ADDRESS"] = temporal.address
        if "Redis" in self.tool.needs:
            self._start_redis(until)
        if "Restate" in self.tool.needs:
            self._start_restate(until)
        self._start((sys.executable, "-m", "bench.peers.other_side", str(self._port)), "other_side", until)
        _until(self._serves, 30)
        self._connection = until.enter_context(psycopg.connect(self.postgres.dsn(), autocommit=True))
        self._connection.execute(TABLE)
        self.tool.set_up(self.postgres.dsn(), self._environment)

    def _start_redis(self, until: ExitStack) -> None:
        port = free_port()
        command = (PROGRAMS["Redis"], "--port", str(port), "--bind", "127.0.0.1", "--dir", str(self.folder))
        self.servers["Redis"] = self._start(command, "redis", until).pid
        self._environment["REDIS_URL"] = f"redis://127.0.0.1:{port}/0"

    def _start_restate(self, until: ExitStack) -> None:
        node, ingress, admin, service = (f"127.0.0.1:{free_port()}" for _ in range(4))
        settings = {
            "RESTATE_BIND_ADDRESS": node,
            "RESTATE_ADVERTISED_ADDRESS": f"http://{node}",
            "RESTATE_INGRESS__BIND_ADDRESS": ingress,
            "RESTATE_ADMIN__BIND_ADDRESS": admin,
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_BASE_DIR": str(self.folder / "restate"),
            "RESTATE_DISABLE_TELEMETRY": "true",
        }
        self.servers["Restate"] = self._start((PROGRAMS["Restate"],), "restate", until, **settings).pid
        self._environment |= {
            "RESTATE_INGRESS": f"http://{ingress}",
            "RESTATE_ADMIN": f"http://{admin}",
            "RESTATE_SERVICE": service,
        }

    def killed(self, scenario: Scenario, count: int) -> Judged:
        """Take orders, kill the process that `scenario` names, and judge what becomes of them."""
        self._put("/rules", RULES[scenario.side])
        with ExitStack() as until:
            at_app = scenario.place == "after-commit"
            worker = self._worker(scenario.side, until)
            self._run(1, until, scenario.side)  # it works
            orders = range(self._last + 1, self._last + 1 + count)
            self._last += count
            self._put("/hold", {"place": scenario.place})
            app = self._app(scenario.side, orders, until)
            _until(lambda: self._record()["waiting"] >= count, 60)
            (app if at_app else worker).kill()
            killed_at = time.time()
            self._put("/hold", {"place": None})
            if not at_app:
                time.sleep(scenario.outage)
                self._worker(scenario.side, until)
            _until(lambda: self._settled(orders), self.tool.limit, must=False)
            charges = [each["order"] for each in self._record()["charges"]]
            ended, in_doubt = self._ended(orders), self.tool.in_doubt(self._connection)
        return judge(orders, charges, ended, in_doubt, killed_at)

    def cost(self, count: int) -> dict[str, float]:
        """CPU seconds per 1,000 orders of the worker and of each server, without a kill."""
        self._put("/rules", RULES["keeps"])
        with ExitStack() as until:
            worker = self._worker("keeps", until)
            self._run(20, until)  # imports, connections, caches
            processes = {"worker": worker.pid, **self.servers}
            before = {name: _cpu(pid) for name, pid in processes.items()}
            self._run(count, until)
            return {name: (_cpu(pid) - before[name]) * 1000 / count for name, pid in processes.items()}

    def delay(self, count: int) -> float:
        """Median of the seconds from an order's row to its end, of orders that come one by one."""
        self._put("/rules", RULES["keeps"])
        with ExitStack() as until:
            self._worker("keeps", until)
            self._run(5, until)
            first = self._last + 1
            for _ in range(count):
                self._run(1, until)
        [(seconds,)] = self._connection.execute(_DELAY, [first]).fetchall()
        return float(seconds)

    def _run(self, count: int, until: ExitStack, side: str = "keeps") -> None:
        orders = range(self._last + 1, self._last + 1 + count)
        self._last += count
        self._app(side, orders, until)
        _until(lambda: len(self._ended(orders)) == count, 120)

    def _settled(self, orders: range) -> bool:
        return set(orders) <= self._ended(orders).keys() | self.tool.in_doubt(self._connection)

    def _ended(self, orders: range) -> dict[int, float]:
        return dict(self._connection.execute(_ENDED, [orders[0], orders[-1]]).fetchall())

    def _worker(self, side: str, until: ExitStack) -> GuardedProcess:
        return self._start(self.tool.worker, "worker", until, SHOP_SIDE=side)

    def _app(self, side: str, orders: range, until: ExitStack) -> GuardedProcess:
        return self._start(self.tool.app(orders[0], len(orders)), "app", until, SHOP_SIDE=side)

    def _start(self, command: Any, name: str, until: ExitStack, **more: str) -> GuardedProcess:
        log = self.folder / f"{self.tool.module}-{name}.log"
        process = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env={**self._environment, **more})
        until.callback(process.kill)
        return process

    def _serves(self) -> bool:
        try:
            self._record()
        except OSError:
            return False
        return True

    def _record(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/record", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _put(self, path: str, body: object) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", json.dumps(body).encode(), method="PUT"
        )
        urllib.request.urlopen(request, timeout=10).close()


@contextmanager
def rig(tool: Tool, folder: Path) -> Iterator[Rig]:
    """The servers of `tool`, for as long as the context lasts."""
    with ExitStack() as until:
        made = Rig(tool, folder)
        made.open(until)
        yield made


def _until(met: Callable[[], bool], limit: float, *, must: bool = True) -> None:
    deadline = time.monotonic() + limit
    while not met():
        if time.monotonic() > deadline:
            if must:
                raise TimeoutError(f"not within {limit} s")
            return
        time.sleep(0.05)


def _cpu(pid: int) -> float:
    """CPU seconds of a process and its children so far, also of those that have ended."""
    parent = psutil.Process(pid)
    own = parent.cpu_times()
    ended = own.children_user + own.children_system
    return float(own.user + own.system + ended) + sum(
        sum(each.cpu_times()[:2]) for each in parent.children(recursive=True)
    )
