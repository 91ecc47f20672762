"""The folder `.perdure` of a project: data of the servers, their ports, logs, and the settings for other terminals."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import NotNow
from perdure.servers.ports import free_port, take
from perdure.servers.postgres_user import let_in, server_account

NAME = ".perdure"
_FOR_ROOT = Path("/var/lib/perdure")


class Folder:
    """One project's `.perdure`.

    Args:
        project: the folder of the project.
    """

    def __init__(self, project: Path) -> None:
        self.project = project.resolve()
        self.path = self.project / NAME
        self.environment = self.path / "env"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep every other `perdure dev` out of it.

        Raises:
            NotNow: another one runs.
        """
        self.path.mkdir(exist_ok=True)
        (self.path / ".gitignore").write_text("*\n")
        with (self.path / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise NotNow(
                    f"`perdure dev` runs already in {self.project} (process {lock.read().strip() or 'unknown'}): "
                    "stop that one, or work in another folder"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def ports(self, *names: str) -> dict[str, int]:
        """A port on 127.0.0.1 for each name: the one of the last time where it is free."""
        file = self.path / "ports.json"
        ports = {name: _port(before) for name, before in zip(names, _numbers(file, names), strict=True)}
        _write(file, json.dumps(ports))
        return ports

    def postgres(self) -> Path:
        """The data directory of PostgreSQL. PostgreSQL does not run as root, and its own user can't pass a closed home
        of root: then the directory is below /var/lib/perdure."""
        inside = self.path / "postgres"
        inside.mkdir(exist_ok=True)
        try:
            let_in(server_account(), inside)
        except PermissionError:
            return _FOR_ROOT / hashlib.sha256(str(self.project).encode()).hexdigest()[:16]
        return inside

    def write_environment(self, settings: Mapping[str, str]) -> None:
        """Leave the settings for other terminals of this user: `. .perdure/env`. The URL may have a password."""
        _write(self.environment, "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))


def _numbers(file: Path, names: Sequence[str]) -> list[int | None]:
    """The numbers of these names; None of each where the file is missing, or was damaged by a crash of the machine."""
    try:
        found = json.loads(file.read_text())
        return [None if (number := found.get(name)) is None else int(number) for name in names]
    except (OSError, ValueError, TypeError, AttributeError):
        return [None] * len(names)


def _write(file: Path, text: str) -> None:
    """Whole or not at all, and readable for the owner alone."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(file)


def _port(before: int | None) -> int:
    return before if before is not None and take(before) else free_port()
