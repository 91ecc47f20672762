"""`perdure worker --processes N`: several worker processes, since one Python process uses one core.

Each is a whole worker. One that ends is replaced; SIGTERM stops all of them in order. They end with this process, even
if it is killed. Prometheus scrapes one port for all: their metrics have the label `process`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from perdure._worker.plugin import REPORTING
from perdure.errors import InvalidSetting
from perdure.logs import says
from perdure.servers.ports import free_port
from perdure.settings import Settings

log = logging.getLogger("perdure.worker")

_WELL = 10.0
"""Seconds after which a process that ends was well until then: it is replaced at once."""
_LONGEST_PAUSE = 30.0
_SCRAPE = 5.0


async def run_processes(app: str, number: int, config: Settings, stop: asyncio.Task[bool]) -> int:
    """Run them until `stop` is done; the exit status.

    Args:
        app: as `load_app` takes it.
        number: how many processes.
        config: settings; what they read from the environment.
        stop: done once they are to stop.

    Raises:
        InvalidSetting: the port for metrics can't be used.
    """
    prometheus = (config.metrics or "").startswith("prometheus:")
    ports = [free_port() for _ in range(number)] if prometheus else []
    processes = [_Process(app, index + 1, ports[index] if ports else None) for index in range(number)]
    with _serving_metrics(config.metrics, ports):
        keeping = [asyncio.create_task(each.keep()) for each in processes]
        watching = asyncio.create_task(_until_none_starts(processes))
        await asyncio.wait({stop, watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in (*keeping, watching):
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        await asyncio.gather(*(each.end(config.graceful_shutdown_timeout + REPORTING + 5) for each in processes))
    return 0 if stop.done() else processes[0].status


async def _until_none_starts(processes: Sequence[_Process]) -> None:
    """Until each has failed at its first start: then it is not for want of a restart."""
    await asyncio.gather(*(each.failed_at_first.wait() for each in processes))


class _Process:
    def __init__(self, app: str, index: int, metrics_port: int | None) -> None:
        self.failed_at_first = asyncio.Event()
        self.status = 0
        self._index = index
        self._command = [sys.executable, "-m", "perdure.cli", "worker", app, "--until-stdin-ends"]
        self._environment = dict(os.environ)
        if metrics_port is not None:
            self._environment["PERDURE_METRICS"] = f"prometheus:127.0.0.1:{metrics_port}"
        self._running: asyncio.subprocess.Process | None = None

    async def keep(self) -> None:
        """Run it, and replace it whenever it ends."""
        pause, starts = 1.0, 0
        while True:
            began = asyncio.get_running_loop().time()
            self._running = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdin=asyncio.subprocess.PIPE
            )
            starts += 1
            self.status = await self._running.wait()
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


@contextmanager
def _serving_metrics(where: str | None, ports: Sequence[int]) -> Iterator[None]:
    """Serve the metrics of all processes on the port that the setting names."""
    if not ports or where is None:
        yield
        return
    host, _, port = where.removeprefix("prometheus:").rpartition(":")

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = merged({str(index + 1): _scraped(port) for index, port in enumerate(ports)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Metrics)
    except (OSError, OverflowError) as error:
        raise InvalidSetting(f"PERDURE_METRICS={where!r}: {error}") from error
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()


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
