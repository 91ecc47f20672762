"""What console processes of one machine share: the secret that signs cookies, one-time tokens, sessions that were
ended. Files in a folder that only its owner may use; a container mounts a volume there.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.console.roles import Grant, Person
from perdure.errors import InvalidSetting

_SECRET = 32
"""Bytes of the key."""


def default_folder() -> Path:
    """`$XDG_STATE_HOME/perdure/console`, or below `~/.local/state`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "perdure" / "console"


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of `PERDURE_CONSOLE_FOLDER`."""

    path: Path

    @classmethod
    def opened(cls, path: str | Path | None) -> Folder:
        """The folder, made where it is missing.

        Raises:
            InvalidSetting: it can't be made or used, or others than its owner may use it.
        """
        folder = cls(Path(path) if path else default_folder())
        try:
            for each in (folder.path, folder._tokens, folder._ended):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.path.stat()
        except OSError as error:
            raise InvalidSetting(f"PERDURE_CONSOLE_FOLDER={str(folder.path)!r}: {error.strerror}") from None
        if found.st_uid != os.geteuid():
            raise InvalidSetting(f"PERDURE_CONSOLE_FOLDER={str(folder.path)!r}: another user owns it: name another one")
        if found.st_mode & 0o077:
            raise InvalidSetting(
                f"PERDURE_CONSOLE_FOLDER={str(folder.path)!r}: others than its owner may use it: "
                f"run chmod 700 {folder.path}"
            )
        return folder

    @property
    def _tokens(self) -> Path:
        return self.path / "tokens"

    @property
    def _ended(self) -> Path:
        return self.path / "ended"

    def secret(self) -> bytes:
        """The key that signs; made when it is first needed."""
        file = self.path / "secret"
        made = file.with_name(f"secret.{secrets.token_hex(8)}")
        if not file.exists():
            with os.fdopen(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as new:
                new.write(secrets.token_bytes(_SECRET))
                new.flush()
                os.fsync(new.fileno())
            with suppress(FileExistsError):  # another process was faster
                file.hardlink_to(made)
            made.unlink()
        found = file.read_bytes()
        if len(found) < _SECRET:  # with an empty key anybody could sign
            raise InvalidSetting(f"{file} is no key: remove it, and everybody signs in again")
        return found

    def add_token(self, person: Person, seconds: float) -> str:
        """Make a token, of which only the SHA-256 is kept; it can be used once, within that time."""
        self._forget()
        token = secrets.token_urlsafe(32)
        kept = {"name": person.name, "grants": [str(each) for each in person.grants], "until": time.time() + seconds}
        file = self._tokens / hashlib.sha256(token.encode()).hexdigest()
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as new:
            json.dump(kept, new)
        return token

    def take_token(self, token: str) -> Person | None:
        """Who has it; from then on it is used up. None = it is not known, was used, or is too old."""
        file = self._tokens / hashlib.sha256(token.encode()).hexdigest()
        taken = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        try:
            file.rename(taken)  # of several that try, one can do it
        except OSError:
            return None
        kept = json.loads(taken.read_text())
        taken.unlink()
        if kept["until"] < time.time():
            return None
        return Person(kept["name"], tuple(Grant.of(each) for each in kept["grants"]))

    def end(self, session: str, until: float) -> None:
        """Remember that a session was ended, until it would have ended by itself."""
        self._forget()
        (self._ended / _digest(session)).write_text(str(until))

    def has_ended(self, session: str) -> bool:
        """Whether it was ended."""
        return (self._ended / _digest(session)).exists()

    def _forget(self) -> None:
        """Remove what is over."""
        for file in [*self._tokens.iterdir(), *self._ended.iterdir()]:
            with suppress(OSError, ValueError):
                text = file.read_text()
                if (json.loads(text)["until"] if file.parent == self._tokens else float(text)) < time.time():
                    file.unlink()


def _digest(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()
