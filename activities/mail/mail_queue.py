"""Searches Postfix's queue for a mail: by its recipient (`postqueue -j`), then by its Message-ID (`postcat`).

Sender and time must fit as well: else neither a hit nor a miss can be believed.

Mail that was piped to `sendmail` lies in the folder `maildrop` until Postfix picks it up. While Postfix is
stopped it is in no log; only the queue holds it. Only root may read queue files: of a mail to the same recipient
that can't be read, the log must show which one it is.
"""

from __future__ import annotations

import asyncio
import shlex
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from activities.mail.contracts.mail import Accepted, Mail
from activities.mail.message import wire_address
from activities.mail.message_id import FORGED, Sought, comparable
from activities.mail.settings import mail_settings
from activities.mail.smtp_outcomes import masked
from perdure import LookupContext, PerdureError

_LONGEST = 16 << 20  # bytes of one mail's line in the list, which names all its recipients
_MAILDROP = "maildrop"
_FATES = {"hold": "held", "deferred": "deferred"}


class QueueUnusable(PerdureError):
    """The queue gives no answer: it cannot be listed, or may hold a forged mail with the Message-ID."""


class QueueAnswer(NamedTuple):
    """What the queue shows of a mail.

    Attributes:
        receipt: of the mail, if the queue holds it.
        unread: queue ids of mails to the same recipient that can't be read, or were gone when they were to be read.
            Each may be the mail, until a log shows the Message-ID of that one.
    """

    receipt: Accepted | None
    unread: frozenset[str] = frozenset()


async def ask_queue(mail: Mail, question: LookupContext) -> QueueAnswer:
    """Search the queue for the mail with the question's Message-ID.

    Raises:
        QueueUnusable: if it can't be listed, or a mail with its Message-ID has another sender.
        NotDone: there is no secret to make its Message-ID with.
    """
    command, sought = shlex.split(mail_settings().postqueue), Sought.by(mail, question)
    unread: set[str] = set()
    for entry in await _listed(command, mail.recipient):
        header = await _header(command, entry.queue_id)
        if header is None:
            if entry.arrived_at >= sought.earliest:
                unread.add(entry.queue_id)
        elif sought.is_named_by(header):
            if not entry.may_be(sought):
                raise QueueUnusable(
                    f"{entry.queue_id} has its Message-ID, and another sender or an older time: {FORGED}"
                )
            # Once Postfix has picked it up it has another name, and only that one is in the log.
            name = "" if entry.queue_name == _MAILDROP else entry.queue_id
            return QueueAnswer(Accepted(queue_id=name, delivery=_FATES.get(entry.queue_name, "queued")))
    return QueueAnswer(None, frozenset(unread))


class _Address(BaseModel):
    address: str


class _Entry(BaseModel):
    """One mail in the queue, as postqueue(1) lists it."""

    queue_name: str
    queue_id: str
    sender: str
    arrival_time: int
    recipients: list[_Address] = []

    @property
    def arrived_at(self) -> datetime:
        return datetime.fromtimestamp(self.arrival_time, UTC)

    def may_be(self, sought: Sought) -> bool:
        """Whether sender and time are those of the mail."""
        return sought.may_be(sender=comparable(self.sender), recipients=set(), at=self.arrived_at)

    def may_go_to(self, recipient: str) -> bool:
        """Whether that is one of its recipients. The list has its own spelling for non-ASCII addresses."""
        wanted, named = wire_address(recipient).lower(), [each.address.lower() for each in self.recipients]
        return not named or not wanted.isascii() or wanted in named


async def _listed(command: list[str], recipient: str) -> list[_Entry]:
    """The mails in the queue that may go to `recipient`; a queue of any length is read line by line."""
    found: list[_Entry] = []
    complaint = b""
    async with _running(command, stderr=STDOUT, limit=_LONGEST) as process:
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                entry = _Entry.model_validate_json(line)
            except ValidationError:
                complaint = line
                continue
            if entry.may_go_to(recipient):
                found.append(entry)
        if await process.wait() != 0:
            raise QueueUnusable(f"{command[0]} can't list the queue: {masked(complaint.decode(errors='replace'))}")
    return found


async def _header(command: list[str], queue_id: str) -> bytes | None:
    """The header of a mail in the queue; None if it can't be read, or is gone."""
    options = [word for word in command[1:] if word != "-j"]  # such as -c, which names an instance
    program = str(Path(command[0]).with_name("postcat"))
    async with _running([program, *options, "-hq", queue_id], stderr=DEVNULL) as process:
        header, _ = await process.communicate()
        return header if process.returncode == 0 else None


@asynccontextmanager
async def _running(command: list[str], *, stderr: int, limit: int = 1 << 16) -> AsyncIterator[Process]:
    """A process that does not outlive its use."""
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=stderr, limit=limit)
    except OSError as error:
        raise QueueUnusable(f"{command[0]} can't be run: {error.strerror}; see PERDURE_MAIL_POSTQUEUE") from error
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # to the end of its output, which comes a moment after its own
