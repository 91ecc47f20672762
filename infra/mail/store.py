"""Where the embedded mail server keeps mail (a maildir) and what it writes to its log, in Postfix's words.

The log has the lines by which a look-up distinguishes an accepted mail from one that was cut off, in Postfix's own
order.
"""

from __future__ import annotations

import mailbox
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from pathlib import Path

_CLIENT = "localhost[127.0.0.1]"
_HOLD = "hold-replies"
"""A file in the maildir. While it exists, the server accepts mails and does not say so."""


class MailStore:
    """A maildir and a log. Each mail and each line is written whole, whenever the process is killed."""

    def __init__(self, maildir: Path, log: Path) -> None:
        for folder in ("tmp", "new", "cur"):
            (maildir / folder).mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._maildir = maildir
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        self._last_id = 0
        self.write("master", "daemon started -- embedded mail server")

    @property
    def holds_replies(self) -> bool:
        """Whether the replies to accepted mails have to wait."""
        return (self._maildir / _HOLD).exists()

    def close(self) -> None:
        """Close the log."""
        os.close(self._log)

    def new_queue_id(self) -> str:
        """A name for a mail that no other has, also after a restart."""
        self._last_id = max(self._last_id + 1, time.time_ns() // 1000)
        return f"{self._last_id:X}"

    def begun(self, process: str, queue_id: str) -> None:
        """A client has named a recipient."""
        self.write(process, f"{queue_id}: client={_CLIENT}")

    def header_seen(self, queue_id: str, message_id: str) -> None:
        """The header has come; that is when Postfix logs the Message-ID, accepted or not."""
        self.write("cleanup", f"{queue_id}: message-id={message_id}")

    def accept(self, queue_id: str, sender: str, recipients: list[str], content: bytes) -> None:
        """Keep a mail and say so in the log. On return the server answers for it."""
        waiting, kept = self._maildir / "tmp" / queue_id, self._maildir / "new" / queue_id
        with waiting.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        waiting.rename(kept)
        size = f"size={len(content)}, nrcpt={len(recipients)}"
        self.write("qmgr", f"{queue_id}: from=<{sender}>, {size} (queue active)")
        for recipient in recipients:
            times = "relay=local, delay=0.01, delays=0.01/0/0/0, dsn=2.0.0"
            self.write("local", f"{queue_id}: to=<{recipient}>, {times}, status=sent (delivered to maildir)")
        self.write("qmgr", f"{queue_id}: removed")

    def ended(self, process: str, good: Counter[str], tried: Counter[str], lost_after: str) -> None:
        """A session is over; `lost_after` names the last command where the client did not say QUIT."""
        if lost_after:
            self.write(process, f"lost connection after {lost_after} from {_CLIENT}")
        tried = tried + Counter(commands=tried.total())
        good = good + Counter(commands=good.total())
        shown = (
            f"{name}={good[name]}" + (f"/{number}" if number > good[name] else "") for name, number in tried.items()
        )
        self.write(process, f"disconnect from {_CLIENT} {' '.join(shown)}")

    def write(self, process: str, text: str) -> None:
        """Add a line; `process` is a daemon's name, with the number of its process or without."""
        name = process if "[" in process else f"{process}[{os.getpid()}]"
        stamp = datetime.now(UTC).isoformat(timespec="microseconds")
        line = f"{stamp} localhost postfix/{name}: {text}\n"
        os.write(self._log, line.encode("utf-8", "surrogateescape"))  # one call, so that lines never mix


@contextmanager
def replies_held(maildir: Path) -> Iterator[None]:
    """The server of `maildir` replies to the mails that it accepts meanwhile only at the end.

    It may be another process. In this one, a fault at `At.ACCEPTED` is simpler.
    """
    (maildir / _HOLD).touch()
    try:
        yield
    finally:
        (maildir / _HOLD).unlink()


def message_id_of(content: bytes) -> str:
    """The Message-ID in a header; empty if there is none."""
    return str(BytesHeaderParser().parsebytes(content).get("Message-ID", "")).strip()


def count_by_message_id(maildir: Path) -> Counter[str]:
    """How many mails each Message-ID has in `maildir`: 1 everywhere, or something was sent twice."""
    if not maildir.exists():
        return Counter()
    parser = BytesHeaderParser()
    box = mailbox.Maildir(maildir, factory=None, create=False)
    return Counter(str(parser.parsebytes(box.get_bytes(key)).get("Message-ID", "")).strip() for key in box.iterkeys())
