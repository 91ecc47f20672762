"""`perdure worker --processes N`: several worker processes, since one Python process uses one core.

Each is a whole worker. One that ends or hangs is replaced; SIGTERM stops all of them in order. They end with this
process, even if it is killed. Prometheus scrapes one port for all: their metrics have the label `process`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress

from perdure._pulse import Pulse
from perdure._services.health import EventLoop, Health, Report
from perdure._worker.plugin import REPORTING
from perdure._worker.serving import Page, page_of, probes, serving
from perdure._worker.siblings import Sibling, asked_all
from perdure.logs import says
from perdure.servers.ports import free_port
from perdure.settings import Settings

log = logging.getLogger("perdure.worker")

_WELL = 10.0
"""Seconds after which a process that ends was well until then: it is replaced at once."""
_LONGEST_PAUSE = 30.0
_SCRAPE = 5.0
_LOOK = 10.0
"""Seconds between two questions to a process whether it hangs; it is ended after `_NOES` answers of that kind."""
_NOES = 3


async def run_processes(app: str, number: int, config: Settings, stop: asyncio.Task[bool]) -> int:
    """Run them until `stop` is done; the exit status.

    Args:
        app: as `load_app` takes it.
        number: how many processes.
        config: settings; what they read from the environment.
        stop: done once they are to stop.

    Raises:
        InvalidSetting: the port for metrics or for health can't be used.
    """
    address = (config.metrics or "").removeprefix("prometheus:") if config.metrics != "otlp" else ""
    ports = [free_port() for _ in range(number)] if address else []
    processes = [_Process(app, index + 1, ports[index] if ports else None) for index in range(number)]
    health, loop = Health("supervisor"), EventLoop()
    health.watch([loop.pulse, *(each.pulse for each in processes)])
    await loop.start()
    with (
        serving(f"PERDURE_METRICS={config.metrics!r}", address or None, {"/metrics": lambda: _metrics(ports)}),
        serving(f"PERDURE_HEALTH={config.health!r}", config.health, _probes(health, processes)),
    ):
        health.runs()
        keeping = [asyncio.create_task(each.kept()) for each in processes]
        starting = asyncio.create_task(_until_none_starts(processes))
        await asyncio.wait({stop, starting}, return_when=asyncio.FIRST_COMPLETED)
        health.stops()
        for task in (*keeping, starting):
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        await asyncio.gather(*(each.end(config.graceful_shutdown_timeout + REPORTING + 5) for each in processes))
    await loop.stop()
    return 0 if stop.done() else processes[0].status


def _probes(health: Health, processes: Sequence[_Process]) -> dict[str, Callable[[], Page]]:
    """A process that hangs is replaced by its supervisor: its siblings need not be restarted, so `/live` is about the
    supervisor alone."""

    def ready() -> Page:
        own = health.ready()
        return page_of(Report("ready", [*own.troubles, *asked_all([each.sibling for each in processes], "ready")]))

    return {**probes(health), "/ready": ready}


async def _until_none_starts(processes: Sequence[_Process]) -> None:
    """Until each has failed at its first start: then it is not for want of a restart."""
    await asyncio.gather(*(each.failed_at_first.wait() for each in processes))


class _Process:
    def __init__(self, app: str, index: int, metrics_port: int | None) -> None:
        self.failed_at_first = asyncio.Event()
        self.status = 0
        self._index = index
        self._command = [sys.executable, "-m", "perdure.cli", "worker", app, "--until-stdin-ends"]
        self.sibling = Sibling(index, free_port())
        self.pulse = Pulse(f"keeping process {index}")
        self._environment = {**os.environ, "PERDURE_HEALTH": f"127.0.0.1:{self.sibling.port}"}
        if metrics_port is not None:
            self._environment["PERDURE_METRICS"] = f"prometheus:127.0.0.1:{metrics_port}"
        self._running: asyncio.subprocess.Process | None = None

    async def kept(self) -> None:
        """Run it, and replace it whenever it ends or hangs."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep())
                tasks.create_task(self._end_hung())
        except* Exception as error:
            log.error("process %d is not looked after any more", self._index, exc_info=error)
            self.pulse.hangs("it has ended")

    async def _end_hung(self) -> None:
        noes = 0
        while True:
            await asyncio.sleep(_LOOK)
            troubles = await asyncio.to_thread(self.sibling.asked, "live")
            noes = noes + 1 if troubles else 0
            process = self._running
            if noes == _NOES and process is not None:
                about = {"process": self._index, "service": troubles[0].service, "why": troubles[0].why}
                says(log, "a worker process hangs; it is killed", level=logging.ERROR, **about)
                with suppress(ProcessLookupError):
                    process.kill()
                noes = 0

    async def _keep(self) -> None:
        pause, starts = 1.0, 0
        while True:
            began = asyncio.get_running_loop().time()
            self._running = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdin=asyncio.subprocess.PIPE
            )
            starts += 1
            self.sibling.began = time.time()
            self.status = await self._running.wait()
            self.sibling.began = None
            lived = asyncio.get_running_loop().time() - began
            if starts == 1 and self.status > 0 and lived < _WELL:
                self.failed_at_first.set()
            pause = 0.0 if lived > _WELL else min(max(2 * pause, 1.0), _LONGEST_PAUSE)
            about = {"process": self._index, "status": self.status, "pause": pause}
            says(log, "a worker process ended; it is replaced", level=logging.ERROR, **about)
            await asyncio.sleep(pause)

    async def end(self, patience: float) -> None:
        """Stop it by SIGTERM, or after `patience` seconds by SIGKILL."""
        process = self._running
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _metrics(ports: Sequence[int]) -> Page:
    """The metrics of all processes."""
    return Page(merged({str(index + 1): _scraped(port) for index, port in enumerate(ports)}))


def _scraped(port: int) -> str:
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
