"""The folder of one installation: ports, the password of Temporal's role, what runs now, and one holder at a time."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from perdure.errors import InvalidSetting, NotNow
from perdure.servers.ports import free_port, take
from perdure.servers.temporal_on_postgres import FRONTEND, PORTS

WEB_UI = "WEB_UI_PORT"
_PASSWORD = "temporal.password"
_STATUS = "status.json"
_LOOKS = 20
_WEB_UI_PORT = 8233


def default_folder() -> Path:
    """The folder that systemd gives, else /var/lib/perdure for root, else below the user's home."""
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    return Path("/var/lib/perdure") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "perdure"


class Folder:
    """One installation's folder.

    Args:
        path: the folder; it is made, for its owner alone, when it is first held.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep every other `perdure up` out of it.

        Raises:
            NotNow: another one runs.
            InvalidSetting: others can write into the folder.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = self.path.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise InvalidSetting(
                f"--state {self.path}: others can write into it, and could replace its files: name a folder of your "
                f"own, or run chmod 700 {self.path}"
            )
        with self._lock().open("a+") as lock:
            if not _locked(lock):
                raise NotNow(
                    f"`perdure up` runs already with {self.path}: stop that one, or name another folder by --state"
                )
            (self.path / _STATUS).unlink(missing_ok=True)  # of the last one
            yield

    def is_held(self) -> bool:
        """Whether a `perdure up` runs with it."""
        if not self._lock().exists():
            return False
        with self._lock().open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def ports(self, frontend: int | None) -> dict[str, int]:
        """A port for each of Temporal's listeners and for the Web UI: those of the last time, since Temporal starts
        faster with them; at first its usual ones. Where one is not free, another one is chosen, except for the port
        that clients use.

        Args:
            frontend: the port that clients use; None = as above.
        """
        before = self._read("ports.json") or {}
        ports: dict[str, int] = {}
        if (fixed := frontend or before.get(FRONTEND)) is not None:
            take(fixed)
            ports[FRONTEND] = fixed
        for name, usual in {**PORTS, WEB_UI: _WEB_UI_PORT}.items():
            wanted = before.get(name, usual)
            if name not in ports:
                ports[name] = wanted if wanted not in ports.values() and take(wanted) else free_port()
        self._write("ports.json", json.dumps(ports))
        return ports

    def password(self) -> str | None:
        """The password of Temporal's role; None where it is not known, as before the first start."""
        file = self.path / _PASSWORD
        return (file.read_text().strip() or None) if file.exists() else None

    def make_password(self) -> str:
        """Make a new password for Temporal's role."""
        made = secrets.token_urlsafe(24)
        self._write(_PASSWORD, made)
        return made

    def last_version(self) -> str | None:
        """The version of the Temporal server that ran last; None before the first start."""
        file = self.path / "temporal.version"
        return file.read_text().strip() if file.exists() else None

    def note_version(self, version: str) -> None:
        """Remember which version of the Temporal server runs."""
        self._write("temporal.version", version)

    def write_environment(self, settings: Mapping[str, str]) -> None:
        """Leave the settings for a shell: `. FOLDER/env`."""
        self._write("env", "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Leave what runs now for `perdure up status`."""
        self._write(_STATUS, json.dumps(status), synced=False)

    def status(self) -> dict[str, Any] | None:
        """What was left last; None before a start has left it."""
        return self._read(_STATUS)

    def _lock(self) -> Path:
        return self.path / "lock"

    def _read(self, name: str) -> dict[str, Any] | None:
        """None if the file is missing, or was damaged by a crash of the machine."""
        file = self.path / name
        try:
            found = json.loads(file.read_text()) if file.exists() else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def _write(self, name: str, text: str, *, synced: bool = True) -> None:
        """Whole or not at all, also if the machine loses its power, and readable for the owner alone."""
        new = self.path / f".{name}.new"
        new.touch(mode=0o600)
        with new.open("w") as file:
            file.write(text)
            file.flush()
            if synced:  # else a file that was renamed can be empty afterwards
                os.fsync(file.fileno())
        new.replace(self.path / name)


def _locked(lock: IO[str]) -> bool:
    """Lock a file against all others, for a second: each look of `is_held` has it for a moment."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(1 / _LOOKS)
        else:
            return True
    return False
