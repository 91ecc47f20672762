"""The maildir of the mail server, counted by key: each file is read once, however often somebody looks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from infra.mail.store import message_id_of


class Postbox:
    """How many mails each key's token has.

    Args:
        maildir: of the mail server; a file there is a mail that was accepted.
    """

    def __init__(self, maildir: Path) -> None:
        self._new = maildir / "new"
        self._read: set[str] = set()
        self._counts: Counter[str] = Counter()

    def counts(self) -> Counter[str]:
        """As of now, by the token that the Message-ID begins with."""
        for path in self._new.iterdir() if self._new.exists() else ():
            if path.name not in self._read:
                self._read.add(path.name)
                self._counts[message_id_of(path.read_bytes()).strip("<>").partition("@")[0]] += 1
        return self._counts
