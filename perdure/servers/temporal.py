"""A Temporal dev server with a life of its own: start, stop, restart, crash, freeze.

`PERDURE_TEST_TEMPORAL_ADDRESS=host:port` names a server that already runs: then none is started, and none can
be stopped. Its methods block: seconds at most, unless the program has to be fetched first.
"""

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from perdure.servers.dev_server import PROMPT_QUEUE, UPDATES, dev_options
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.temporal_binary import TemporalMissingError, find_temporal, obtain_temporal

__all__ = ["TemporalError", "TemporalMissingError", "TemporalServer", "find_temporal", "obtain_temporal"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


class TemporalError(RuntimeError):
    """The server could not be started, or is not ours to stop; the message has the reason."""


class TemporalServer:
    """One Temporal server on 127.0.0.1 in one process, with SQLite behind it.

    It keeps its ports over `stop`, `kill` and `start`, and its workflows if there is a `db_file`.
    It ends with the process that started it.
    """

    def __init__(
        self,
        port: int | None = None,
        ui_port: int | None = None,
        db_file: Path | None = None,
        namespace: str = "default",
        log_file: Path | None = None,
        *,
        prompt_queue: bool = True,
        dynamic_config: Mapping[str, str] = _NOTHING,
        search_attributes: Mapping[str, str] = _NOTHING,
        metrics_port: int | None = None,
    ) -> None:
        """Choose what; nothing runs yet.

        Args:
            port: for gRPC; None = a free one.
            ui_port: for the Web UI; None = no Web UI.
            db_file: where workflows survive a restart; None = in memory: a restart loses them.
            namespace: is made at the start, next to "default", which is always there.
            log_file: what the server writes, appended; None = a temporary one.
            prompt_queue: False leaves the transfer queue's polling at the server's default.
            dynamic_config: more of the server's settings; values are JSON.
            search_attributes: name to type (Keyword, Int, Datetime, ...), registered at the start.
            metrics_port: where it shows its metrics, as `/metrics`; None = a random one.
        """
        configured = os.environ.get("PERDURE_TEST_TEMPORAL_ADDRESS", "")
        self.ours: bool = not configured
        self.port: int = port or free_port()
        self.address: str = configured or f"127.0.0.1:{self.port}"
        self.ui_url: str | None = f"http://127.0.0.1:{ui_port}" if self.ours and ui_port else None
        self.namespace = namespace
        self._ui_port, self._http_port, self._db_file = ui_port, free_port(), db_file
        self._config = UPDATES | (PROMPT_QUEUE if prompt_queue else {}) | dict(dynamic_config)
        self._search_attributes = dict(search_attributes)
        self._metrics_port = metrics_port
        self._temporary: Path | None = None
        if log_file is None and self.ours:
            self._temporary = Path(tempfile.mkdtemp(prefix="perdure-temporal-"))
            log_file = self._temporary / "temporal.log"
        self.log_file: Path = log_file or Path(os.devnull)
        self._process: GuardedProcess | None = None

    @property
    def running(self) -> bool:
        """Whether the server process is there; a configured one is taken to be."""
        return not self.ours or (self._process is not None and self._process.running)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._own_process().pid

    def start(self, *, timeout: float = 180.0) -> None:
        """Start the server and wait until it serves its namespace.

        A configured server is only connected to.

        Args:
            timeout: seconds, not counting the time to fetch the program.

        Raises:
            TemporalError: if it ended or didn't serve in time.
            TemporalMissingError: if there is no program to start.
        """
        if not self.ours:
            return self._wait_for_configured(timeout)
        if self.running:
            return
        self._process = GuardedProcess(
            [obtain_temporal(), "server", "start-dev", *self._options()],
            ask=signal.SIGTERM,
            log=self.log_file,
            remove=self._temporary,
        )
        self._wait_until_serving(self._process, timeout)

    def stop(self, *, timeout: float = 15.0) -> None:
        """Stop the server: SIGTERM, and SIGKILL if it is still there after `timeout` seconds."""
        if self._process is not None:
            with suppress(TimeoutError):
                self._process.stop(timeout=timeout)

    def restart(self) -> None:
        """Stop the server and start it again on the same ports."""
        self._own_process()
        self.stop()
        self.start()

    def kill(self) -> None:
        """Crash: SIGKILL."""
        self._own_process().kill()

    def pause(self) -> None:
        """Freeze the server by SIGSTOP: connections stay open and nobody answers."""
        self._own_process().pause()

    def resume(self) -> None:
        """Let a frozen server go on."""
        self._own_process().resume()

    def interrupted(self) -> bool:
        """Return whether SQLite answers that it was interrupted, which it may do until the server is started again."""
        return b"interrupted (9)" in self._describe_namespace()[1]

    def close(self) -> None:
        """Stop the server and remove its log if that was temporary."""
        self.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _own_process(self) -> GuardedProcess:
        if not self.ours:
            raise TemporalError(
                f"the server at {self.address} is configured by PERDURE_TEST_TEMPORAL_ADDRESS, so it is not "
                "ours to stop or freeze: unset the variable to have one started, or skip this where "
                "`server.ours` is False"
            )
        if self._process is None:
            raise TemporalError(f"the Temporal server for {self.address} was not started yet")
        return self._process

    def _options(self) -> list[str]:
        return dev_options(
            self.port,
            self._http_port,
            ui_port=self._ui_port,
            db_file=self._db_file,
            namespace=self.namespace,
            metrics_port=self._metrics_port,
            dynamic_config=self._config,
            search_attributes=self._search_attributes,
        )

    def _wait_until_serving(self, process: GuardedProcess, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not (_listens(self.address) and self._namespace_described()):
            if not process.running:
                process.stop()
                raise TemporalError(f"the Temporal server ended at its start: {_end_of(self.log_file)}")
            if time.monotonic() > deadline:
                process.kill()
                raise TemporalError(
                    f"the Temporal server at {self.address} didn't serve namespace {self.namespace!r} "
                    f"after {timeout} s: {_end_of(self.log_file)}"
                )
            time.sleep(0.02)

    def _namespace_described(self) -> bool:
        return self._describe_namespace()[0] == 200

    def _describe_namespace(self) -> tuple[int, bytes]:
        # The server's own HTTP view of the gRPC call DescribeNamespace; status 0 = no answer.
        connection = HTTPConnection("127.0.0.1", self._http_port, timeout=5)
        try:
            connection.request("GET", f"/api/v1/namespaces/{self.namespace}")
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException):
            return 0, b""
        finally:
            connection.close()

    def _wait_for_configured(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not _listens(self.address):
            if time.monotonic() > deadline:
                raise TemporalError(
                    f"nothing listens at PERDURE_TEST_TEMPORAL_ADDRESS={self.address} after {timeout} s: "
                    "start that server, or unset the variable to have one started"
                )
            time.sleep(0.1)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def _end_of(log: Path) -> str:
    return f"{log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
