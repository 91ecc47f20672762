"""A log and its rotated parts as one stream, oldest first, and the question from when on it is complete.

Reads the files of logrotate and Postfix: `mail.log.1`, `mail.log-20261121`, `mail.log.20261121-031409`, each also
compressed by gzip, bzip2 or xz. Reads in blocks; no file is ever held in memory as a whole.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from perdure import PerdureError

_BLOCK = 1 << 20  # bytes
CAUTION = timedelta(hours=1)
"""By how much the clocks of the log and of its file system may be off ours."""
_ROTATED = re.compile(r"(?P<part>[.-](?:(?P<number>\d{1,4})|\d{8}(?:-\d{4,6})?))(?P<packed>\..*)?")
_OPEN: dict[str, Callable[[Path], io.FileIO | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]] = {
    "": io.FileIO,
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
_RFC3339 = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ")
_RFC3164 = re.compile(rb"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) ")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")


class LogUnusable(PerdureError):
    """The log can't answer: it is missing, can't be read, or does not reach back far enough."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One part of a log as it was found."""

    path: Path
    inode: int
    written: datetime
    """When it was last written."""
    packed: str = ""
    """The suffix that shows how it was compressed."""

    def blocks(self) -> Iterator[bytes]:
        """Its lines, about a megabyte at a time; a last one without its end is being written: left out.

        Raises:
            LogUnusable: if it can't be read.
        """
        if (opened := _OPEN.get(self.packed)) is None:
            raise LogUnusable(f"the log {self.path} can't be read: compress logs by gzip, bzip2 or xz")
        rest = b""
        try:
            with opened(self.path) as stream:
                while read := stream.read(_BLOCK):
                    whole, newline, rest = (rest + read).rpartition(b"\n")
                    if newline:
                        yield whole
                    elif len(rest) > _BLOCK:
                        rest = b""  # not a line that anybody wrote
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise LogUnusable(f"the log {self.path} can't be read: {error}") from error

    def first_stamp(self, zone: ZoneInfo | None) -> datetime | None:
        """Time of its first line that has one."""
        for block in self.blocks():
            for line in block.split(b"\n"):
                if (stamp := stamp_of(line, self.written, zone)) is not None:
                    return stamp
        return None


@dataclass(frozen=True, slots=True)
class Log:
    """The parts of a log that were written since a moment, oldest first."""

    live: Path
    since: datetime
    parts: tuple[LogFile, ...]
    goes_back_further: bool
    """Whether a part ended before that time."""

    @classmethod
    def since_moment(cls, live: Path, since: datetime) -> Log:
        """The log whose newest part is `live`.

        Raises:
            LogUnusable: if there is none, or it can't be looked at.
        """
        try:
            found = _unbroken(live)
        except OSError as error:
            raise LogUnusable(f"no log at {live}: {error.strerror}; see PERDURE_MAIL_LOG") from error
        parts = tuple(part for part in found if part.written >= since - CAUTION)
        return cls(live, since, parts, goes_back_further=len(parts) < len(found))

    def check_complete(self, zone: ZoneInfo | None) -> None:
        """Return if no line written since the moment can have been missed.

        Args:
            zone: of time stamps that name none; None = this machine's.

        Raises:
            LogUnusable: if older lines were rotated away, or the log was rotated while it was read.
        """
        if Log.since_moment(self.live, self.since).parts_seen() != self.parts_seen():
            raise LogUnusable(f"the log {self.live} was rotated while it was read: ask again")
        if self.goes_back_further:
            return
        first = next((stamp for part in self.parts if (stamp := part.first_stamp(zone)) is not None), None)
        if first is None:
            raise LogUnusable(f"the log {self.live} holds no line with a time stamp")
        if first > self.since:
            raise LogUnusable(
                f"the log {self.live} begins at {first.isoformat()}, after the first attempt "
                f"at {self.since.isoformat()}: "
                "look in older logs, or resolve the doubt by hand"
            )

    def parts_seen(self) -> set[tuple[Path, int]]:
        """A value that changes with each rotation of the log."""
        return {(part.path, part.inode) for part in self.parts}


def stamp_of(line: bytes, written: datetime, zone: ZoneInfo | None) -> datetime | None:
    """Time stamp that a log line begins with (RFC 3339, or RFC 3164 without year and zone), or None.

    Args:
        written: when its file was last written: a line is never more than a day younger, which gives its
            year.
        zone: of stamps that name none; None = this machine's.
    """
    if found := _RFC3339.match(line):
        try:
            return datetime.fromisoformat(found[1].decode())
        except ValueError:
            return None
    if not (found := _RFC3164.match(line)) or found[1] not in _MONTHS:
        return None
    month, day = _MONTHS.index(found[1]) + 1, int(found[2])
    hour, minute, second = int(found[3]), int(found[4]), int(found[5])
    for year in range(written.year + 1, written.year - 9, -1):  # February 29 exists once in 4 or 8 years
        try:
            # fold=1: of two hours with one name (the end of summer time) the later one, so as not to claim
            # too much.
            naive = datetime(year, month, day, hour, minute, second, fold=1)
        except ValueError:
            continue
        stamp = naive.replace(tzinfo=zone) if zone is not None else naive.astimezone()
        if stamp <= written + timedelta(days=1):
            return stamp.astimezone(UTC)
    return None


def _unbroken(live: Path) -> list[LogFile]:
    """`live` and its rotated parts without a gap between them, oldest first."""
    newest = _look(live)
    files: dict[str, list[re.Match[str]]] = {}
    for path in live.parent.iterdir():
        if path.name.startswith(live.name) and (found := _ROTATED.fullmatch(path.name, len(live.name))):
            files.setdefault(found["part"], []).append(found)
    numbered: dict[int, LogFile] = {}
    dated: list[LogFile] = []
    for same in files.values():
        # Just being packed, the unpacked one is still there, and whole.
        found = min(same, key=lambda each: ((each["packed"] or "") not in _OPEN, each["packed"] or ""))
        part = _look(live.with_name(found.string), found["packed"] or "")
        if found["number"] is None:
            dated.append(part)
        else:
            numbered[int(found["number"])] = part
    first = 0 if 0 in numbered else 1
    run = next(number for number in range(first, first + len(numbered) + 1) if number not in numbered)
    rotated = dated + [part for number, part in numbered.items() if number < run]
    return [*sorted(rotated, key=lambda part: (part.written, part.path.name)), newest]


def _look(path: Path, packed: str = "") -> LogFile:
    status = path.stat()
    return LogFile(path, status.st_ino, datetime.fromtimestamp(status.st_mtime, UTC), packed)
