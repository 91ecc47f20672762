"""What console processes of one machine share: the secret that signs cookies, one-time tokens, sessions, and which
forms were sent. Files in a folder that only its owner may use; a container mounts a volume there.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.console.roles import Grant, Person
from perdure.errors import InvalidSetting

_SECRET = 32
"""Bytes of the key."""
_HOUR = 3600
FORM_AGE = 12 * _HOUR
"""Seconds that a form can be sent."""
_REVOKED = 30 * 24 * _HOUR
"""Seconds that a revocation is kept: longer than a session, or an act on many, can last."""


def default_folder() -> Path:
    """`$XDG_STATE_HOME/perdure/console`, or below `~/.local/state`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "perdure" / "console"


@dataclass(frozen=True, slots=True)
class Access:
    """What lets a person in.

    Attributes:
        began: when the session began; None = a token that nobody has used yet.
        until: when it ends at the latest.
    """

    name: str
    grants: tuple[str, ...]
    began: float | None
    until: float


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
            for each in (folder.path, folder._tokens, folder._sessions, folder._revoked, folder._forms):
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
    def _sessions(self) -> Path:
        return self.path / "sessions"

    @property
    def _revoked(self) -> Path:
        return self.path / "revoked"

    @property
    def _forms(self) -> Path:
        return self.path / "forms"

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
        token, now = secrets.token_urlsafe(32), time.time()
        _write(self._tokens / _digest(token), _kept(person, now + seconds, made=now))
        return token

    @contextmanager
    def taking_token(self, token: str) -> Iterator[Person | None]:
        """Who has it; None = it is not known, was used, was revoked, or is too old.

        It is used up, unless the block fails.

        Raises:
            OSError: the folder can't be read or written to.
        """
        file = self._tokens / _digest(token)
        taken = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        try:
            file.rename(taken)  # of several that try, one can do it
        except FileNotFoundError:
            yield None
            return
        try:
            kept = json.loads(taken.read_text())
            over = kept["until"] < time.time() or self.revoked(kept["name"], kept["made"])
            yield None if over else Person(kept["name"], tuple(Grant.of(each) for each in kept["grants"]))
        except BaseException:
            taken.rename(file)
            raise
        taken.unlink()

    def begin(self, session: str, person: Person, began: float, until: float) -> None:
        """Put a session on record: without that, its cookie counts for nothing."""
        self._forget()
        _write(self._sessions / _digest(session), _kept(person, until, began=began))

    def end(self, session: str) -> None:
        """A session is over."""
        (self._sessions / _digest(session)).unlink(missing_ok=True)

    def lasts(self, session: str, name: str, began: float) -> bool:
        """Whether the session of a person, which began then, is neither ended nor revoked."""
        return (self._sessions / _digest(session)).exists() and not self.revoked(name, began)

    def revoke(self, name: str) -> list[Access]:
        """End the sessions of a person that began until now, and use up the person's tokens; what there was."""
        file = self._revoked / _digest(name)
        made = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        _write(made, str(time.time()))
        made.rename(file)
        ended = []
        for file, access in self._there():
            if access.name == name:
                ended.append(access)
                file.unlink(missing_ok=True)
        return ended

    def revoked(self, name: str, began: float) -> bool:
        """Whether what a person began then was revoked since."""
        try:
            return float((self._revoked / _digest(name)).read_text()) >= began
        except FileNotFoundError:
            return False

    def access(self) -> list[Access]:
        """Who is signed in or holds a token."""
        return sorted((each for _, each in self._there()), key=lambda each: (each.name, each.until))

    def use_form(self, nonce: str, made: float) -> bool:
        """Whether a form is sent for the first time, to any process; from now on it was sent.

        Args:
            made: when the form was made; no longer ago than `FORM_AGE`.

        Raises:
            OSError: it can't be put on record.
        """
        hour = self._forms / str(int(made) // _HOUR)
        if not hour.exists():
            self._forget_forms()
            hour.mkdir(mode=0o700, exist_ok=True)
        try:
            _write(hour / _digest(nonce), "")
        except FileExistsError:
            return False
        return True

    def _there(self) -> Iterator[tuple[Path, Access]]:
        for file in [*self._tokens.iterdir(), *self._sessions.iterdir()]:
            with suppress(OSError, ValueError, KeyError):
                kept = json.loads(file.read_text())
                access = Access(kept["name"], tuple(kept["grants"]), kept.get("began"), kept["until"])
                if access.until >= time.time():
                    yield file, access

    def _forget(self) -> None:
        """Remove what is over."""
        for file in [*self._tokens.iterdir(), *self._sessions.iterdir()]:
            with suppress(OSError, ValueError, KeyError):
                if json.loads(file.read_text())["until"] < time.time():
                    file.unlink()
        for file in self._revoked.iterdir():
            with suppress(OSError, ValueError):
                if float(file.read_text()) + _REVOKED < time.time():
                    file.unlink()

    def _forget_forms(self) -> None:
        """Remove the hours whose forms are too old to be sent."""
        first = int(time.time() - FORM_AGE) // _HOUR
        for hour in self._forms.iterdir():
            with suppress(OSError, ValueError):
                if int(hour.name) < first:
                    for file in hour.iterdir():
                        file.unlink()
                    hour.rmdir()


def _kept(person: Person, until: float, **more: float) -> str:
    return json.dumps({"name": person.name, "grants": [str(each) for each in person.grants], "until": until, **more})


def _write(file: Path, text: str) -> None:
    """Raises `FileExistsError` where it is there."""
    with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as new:
        new.write(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
