"""The worker process of a case. It reports the places that it passes, and kills itself or waits at one of them.

Worker processes are forked from one that has imported the libraries, which takes a few hundredths of a second. They end
when their connection to the test breaks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from perdure import _faults as faults
from perdure._worker.worker import leave, load_app, run_worker
from perdure.errors import PerdureError
from perdure.logs import set_up
from perdure.settings import settings
from perdure.testing.crashing.places import Places, WatchedPlugin

PRELOADED = ["perdure.testing.crashing.preloaded"]


@dataclass(frozen=True, slots=True)
class Orders:
    """The order for a worker process.

    Attributes:
        app: the app, as for `load_app`.
        environment: environment variables of its settings.
        log: file for its output.
        line: port of the test.
        die_at: the place at which the process kills itself.
        stop_at: the place at which the process reports to the test and waits for its answer.
        checks: whether each workflow is tried in the sandbox before it runs. One worker's check is enough for all.
    """

    app: str
    environment: Mapping[str, str]
    log: str
    line: int
    die_at: str | None = None
    stop_at: str | None = None
    checks: bool = True


def work(orders: Orders) -> None:
    """Run a worker; the target of the process."""
    os.environ.update(orders.environment)
    log = os.open(orders.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    line = Line(orders.line)

    def visit(place: str) -> None:
        if place == orders.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        line.say(place)
        if place == orders.stop_at:
            line.wait()

    faults.inject(Places(visit).reached)
    status = 0
    try:
        config = settings()
        set_up(config.log, config.log_level)
        app = load_app(orders.app)
        asyncio.run(run_worker(app, config, plugin=WatchedPlugin(app, config, checks=orders.checks)))
    except PerdureError as error:
        print(f"perdure: {error}", file=sys.stderr)
        status = 1
    except BaseException as error:
        print(f"the worker ended: {error!r}", file=sys.stderr)
        status = 1
    leave(status)


class Line:
    """The connection to the test: sends names of places, and receives the order to continue."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._lock = threading.Lock()
        self._words: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, place: str) -> None:
        with self._lock, suppress(OSError):
            self._socket.sendall(json.dumps({"pid": os.getpid(), "place": place}).encode() + b"\n")

    def wait(self) -> None:
        self._words.get()

    def _listen(self) -> None:
        with suppress(OSError):
            for word in self._socket.makefile():
                self._words.put(word)
        os._exit(1)  # the test is gone
