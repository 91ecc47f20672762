"""`perdure worker --processes N`: several worker processes, since one Python process uses one core.

Each is a whole worker. One that ends or hangs is replaced; SIGTERM stops all of them in order. They end with this
process, even if it is killed. Prometheus scrapes one port for all: their metrics have the label `process`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from perdure._pulse import Pulse
from perdure._services.health import EventLoop, Health, Report
from perdure._worker.child import Child, inherited_environment
from perdure._worker.plugin import REPORTING
from perdure._worker.serving import Page, page_of, probes, serving
from perdure._worker.siblings import Sibling, asked_all
from perdure.logs import log_event
from perdure.servers.ports import free_port
from perdure.settings import Settings

log = logging.getLogger("perdure.worker")

_SCRAPE = 5.0
_LOOK = 10.0
"""Seconds between two probes of a process. It is ended after `_NOES` negative answers."""
_NOES = 3
_LOOK_AT_START = 1.0
"""Seconds between two probes of a process that is not ready yet."""


async def run_processes(app: str, number: int, config: Settings, stop: asyncio.Task[bool]) -> int:
    """Run worker processes until `stop` is done. Returns the exit status.

    Args:
        app: the place of the app, for `load_app`.
        number: number of processes.
        config: the settings, which the processes read from the environment.
        stop: done once the processes must stop.

    Raises:
        InvalidSetting: the port for metrics or for health cannot be used.
    """
    processes = [WorkerProcess(app, index + 1, config) for index in range(number)]
    health, loop = Health("supervisor"), EventLoop()
    health.watch([loop.pulse, *(each.pulse for each in processes)])
    await loop.start()
    with served(config, health, processes):
        health.runs()
        keeping = [asyncio.create_task(each.kept()) for each in processes]
        starting = asyncio.create_task(_until_none_starts(processes))
        await asyncio.wait({stop, starting}, return_when=asyncio.FIRST_COMPLETED)
        health.stops()
        for task in (*keeping, starting):
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        await asyncio.gather(*(each.child.end(patience(config)) for each in processes))
    await loop.stop()
    return 0 if stop.done() else processes[0].child.first_status or 1


def patience(config: Settings) -> float:
    """Seconds that a worker process has to stop."""
    return config.graceful_shutdown_timeout + REPORTING + 5


@contextmanager
def served(config: Settings, health: Health, processes: Sequence[WorkerProcess]) -> Iterator[None]:
    """Serve the metrics and the health of all processes at the addresses of the settings.

    Raises:
        InvalidSetting: an address cannot be used.
    """
    address = _metrics_address(config) or None
    with (
        serving(f"PERDURE_METRICS={config.metrics!r}", address, {"/metrics": lambda: _metrics(processes)}),
        serving(f"PERDURE_HEALTH={config.health!r}", config.health, _probes(health, processes)),
    ):
        yield


def _probes(health: Health, processes: Sequence[WorkerProcess]) -> dict[str, Callable[[], Page]]:
    """The pages for probes. `/live` reports the supervisor alone, which replaces a hung process without a restart of
    the others."""

    def ready() -> Page:
        own = health.ready()
        others = asked_all([each.sibling for each in processes], "ready") if processes else []
        return page_of(Report("ready", [*own.problems, *others]))

    return {**probes(health), "/ready": ready}


async def _until_none_starts(processes: Sequence[WorkerProcess]) -> None:
    """Wait until each process has failed at its first start, because another start would not help then."""
    await asyncio.gather(*(each.child.failed_at_first.wait() for each in processes))


class WorkerProcess:
    """One worker process, which is replaced when it ends or hangs.

    Args:
        app: the place of the app, for `load_app`.
        index: number of the process, from 1.
        config: the settings.
        more: variables of its environment in addition to ours.
        options: further arguments of `Child`. Without `until_ready`, the process is asked at its port.
    """

    def __init__(
        self, app: str, index: int, config: Settings, more: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self.sibling = Sibling(index, free_port())
        self.pulse = Pulse(f"keeping process {index}")
        self.metrics_port = free_port() if _metrics_address(config) else None
        self._changed: Callable[[], None] = options.pop("changed", lambda: None)
        environment = {**inherited_environment(), **(more or {}), "PERDURE_HEALTH": f"127.0.0.1:{self.sibling.port}"}
        if self.metrics_port is not None:
            environment["PERDURE_METRICS"] = f"prometheus:127.0.0.1:{self.metrics_port}"
        options.setdefault("until_ready", self._until_ready)
        command = [sys.executable, "-m", "perdure.cli", "worker", app, "--until-stdin-ends"]
        self.child = Child(f"worker-{index}", command, environment, changed=self._note, **options)

    async def kept(self) -> None:
        """Run the process, and replace it whenever it ends or hangs."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.child.keep())
                tasks.create_task(end_hung(self.child, self.sibling))
        except* Exception as error:
            log.error("process %d is not looked after any more", self.sibling.index, exc_info=error)
            self.pulse.hangs("it has ended")

    async def _until_ready(self) -> None:
        while True:
            if not await asyncio.to_thread(self.sibling.asked, "ready"):
                return
            await asyncio.sleep(_LOOK_AT_START)

    def _note(self) -> None:
        self.sibling.began = self.child.began
        self._changed()


async def end_hung(child: Child, sibling: Sibling) -> None:
    """Ask a process whether it lives, and kill it after `_NOES` negative answers in a row, until this is cancelled."""
    noes = 0
    while True:
        await asyncio.sleep(_LOOK)
        problems = await asyncio.to_thread(sibling.asked, "live")
        noes = noes + 1 if problems else 0
        if noes == _NOES:
            about = {"process": child.name, "service": problems[0].service, "why": problems[0].why}
            log_event(log, "a process hangs; it is killed", level=logging.ERROR, **about)
            child.kill()
            noes = 0


def _metrics_address(config: Settings) -> str:
    return (config.metrics or "").removeprefix("prometheus:") if config.metrics != "otlp" else ""


def _metrics(processes: Sequence[WorkerProcess]) -> Page:
    """The metrics of all processes."""
    return Page(merged({str(each.sibling.index): _scraped(each.metrics_port) for each in processes}))


def _scraped(port: int | None) -> str:
    """The metrics of one process; '' while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_SCRAPE) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def merged(texts: dict[str, str]) -> str:
    """Several expositions in Prometheus' text format as one: each family once, each sample with the label `process`.

    Example:
        >>> one = '# TYPE a counter\\na{b="c"} 1\\n'
        >>> print(merged({"1": one, "2": one}), end="")
        # TYPE a counter
        a{process="1",b="c"} 1
        a{process="2",b="c"} 1
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for process, text in texts.items():
        name = ""
        for line in text.splitlines():
            if line.startswith("#"):
                name = line.split(" ", 3)[2]
                head = families.setdefault(name, ([], []))[0]
                if line not in head:
                    head.append(line)
            elif line:
                series, space, value = line.rpartition(" ")
                metric, brace, labels = series.partition("{")
                label = f'{{process="{process}"' + (f",{labels}" if brace and labels != "}" else "}")
                families.setdefault(name, ([], []))[1].append(f"{metric}{label}{space}{value}")
    return "".join(f"{line}\n" for head, samples in families.values() for line in (*head, *samples))
