"""PgBouncer before a PostgreSQL server, in transaction mode: nothing of a session outlives its transaction.

Looked for on PATH and in our cache; else taken out of Debian's packages, which needs no root.
"""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port, is_free
from perdure.servers.postgres import PostgresServer
from perdure.servers.postgres_user import SHARED_CACHE, closed_to, let_in, server_account
from perdure.servers.programs import output_of
from perdure.servers.progress import progress

_PACKAGES = ("pgbouncer", "libc-ares2", "libevent-2.1-7")

_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
{more}
"""


class PgBouncerMissingError(RuntimeError):
    """There is no `pgbouncer` program, and no way to get one worked."""


def obtain_pgbouncer() -> Path:
    """Return the program, fetched into our cache first if need be; its libraries lie beside it, see `_libraries`.

    Raises:
        PgBouncerMissingError: with what was tried.
    """
    on_path = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if on_path:
        return Path(on_path)
    account = server_account()
    cache = SHARED_CACHE if closed_to(account, cache_directory() / "x") else cache_directory()
    return made_once(cache / "pgbouncer", _from_debian) / "usr/sbin/pgbouncer"


def _from_debian(target: Path) -> None:
    target.mkdir()
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder, progress("downloading PgBouncer (once)"):
            _download(Path(folder))
            for package in Path(folder).glob("*.deb"):
                output_of(["dpkg-deb", "-x", str(package), str(target)], Path(folder))
    except (RuntimeError, OSError) as error:
        raise PgBouncerMissingError(
            f"no program 'pgbouncer' on PATH or in our cache, and Debian's package could not be had: {error}\n"
            "Put pgbouncer on PATH: apt-get install pgbouncer"
        ) from error
    target.parent.chmod(0o755)
    target.chmod(0o755)


def _download(folder: Path) -> None:
    """With the machine's lists of packages; with lists of our own where it has none, as a fresh image, or old ones."""
    apt = ["apt-get", "-o", "APT::Sandbox::User="]
    try:
        output_of([*apt, "download", *_PACKAGES], folder)
    except RuntimeError:
        (folder / "lists" / "partial").mkdir(parents=True)
        apt += ["-o", f"Dir::State::lists={folder / 'lists'}"]
        output_of([*apt, "update"], folder)
        output_of([*apt, "download", *_PACKAGES], folder)


def _libraries(program: Path) -> dict[str, str]:
    """What finds the libraries that were unpacked with it; nothing for one that is installed."""
    unpacked = program.parents[2]
    found = [str(folder) for folder in unpacked.glob("usr/lib/*-linux-gnu")] if unpacked.name == "pgbouncer" else []
    return {"LD_LIBRARY_PATH": ":".join(found)} if found else {}


class PgBouncer:
    """One PgBouncer on 127.0.0.1 in front of `server`. It ends with the process that started it.

    Args:
        server: where the transactions go.
        settings: more lines of its configuration.
    """

    def __init__(self, server: PostgresServer, **settings: str) -> None:
        self.port = free_port()
        self._server = server
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-pgbouncer-"))
        self._process: GuardedProcess | None = None

    def dsn(self, database: str = "postgres") -> str:
        """Return the URL of a database through it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self, *, timeout: float = 120.0) -> None:
        """Start it, and wait until it listens.

        Raises:
            RuntimeError: it ended, or did not listen in time; with what it logged.
        """
        program, account = obtain_pgbouncer(), server_account()
        let_in(account, self._folder)
        configuration = self._folder / "pgbouncer.ini"
        more = "\n".join(f"{name} = {value}" for name, value in self._settings.items())
        configuration.write_text(_CONFIGURATION.format(server=self._server.port, port=self.port, more=more))
        configuration.chmod(0o644)
        self._process = GuardedProcess(
            [program, configuration],
            ask=signal.SIGINT,
            log=self._folder / "pgbouncer.log",
            remove=self._folder,
            env=os.environ | _libraries(program),
            **account.options,
        )
        self._wait_until_it_listens(self._process, timeout)

    def close(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.stop(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_until_it_listens(self, process: GuardedProcess, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while is_free(self.port):
            if not process.running or time.monotonic() > deadline:
                log = (self._folder / "pgbouncer.log").read_text(errors="replace")
                process.kill()
                raise RuntimeError(f"PgBouncer does not listen: {log}")
            time.sleep(0.02)
