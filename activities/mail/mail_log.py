"""Looks up in the mail server's log whether a mail was accepted: Message-ID, queue id, delivery.

Reads what Postfix writes. The question is whether the server took the mail, not whether it arrived: a mail
that was deferred, bounced or thrown away later was handed over all the same, and the receipt has how far it
got. Whoever has had a mail can send another one with its Message-ID: sender, recipient and time must fit as well.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from activities.mail.contracts.mail import FIND_IN_MAIL_LOG, Accepted, Mail
from activities.mail.log_files import CAUTION, Log, LogFile, LogUnusable, stamp_of
from activities.mail.mail_queue import QueueUnusable, ask_queue
from activities.mail.message_id import FORGED, Sought
from activities.mail.settings import mail_settings
from perdure import LookupContext

mail_settings()  # a worker with a wrong setting must not start

_LINE = re.compile(rb"\S+(?: [ \d]\d \S+)? (?:\S+ ){1,2}(?P<process>\S+/(?P<daemon>[a-z]+)\[\d+\]): (?P<text>.*)")
_QUEUED = re.compile(rb"(?P<queue_id>[0-9A-Za-z]{5,24}): (?P<rest>.*)")
_STATUS = re.compile(rb"(?:to|from)=<(?P<address>[^>]*)>,.*?\bstatus=(?P<status>[a-z]+)")
_FROM = re.compile(rb'from=<([^">]*)>(?:,|$)')
_TO = re.compile(rb'to=<([^">]*)>(?:, orig_to=<([^">]*)>)?,')
_DATA = re.compile(rb"disconnect from .* data=(?P<good>\d+)(?P<of>/\d+)?\b")
_ALARM = re.compile(rb"(?:warning|error|fatal|panic): ")
_DELAY = re.compile(rb" delay=([\d.]+),")
_FATES = {b"hold": "held", b"discard": "discarded"}
_BAD_FIRST = ("expired", "bounced", "deferred", "sent")


@FIND_IN_MAIL_LOG.answers
async def find_in_mail_log(mail: Mail, question: LookupContext) -> Accepted | None:
    """The receipt of a mail that the server accepted; None if it certainly accepted none.

    Raises:
        LogUnusable: if the log is missing, can't be read, does not reach back to the first attempt, has nothing of
            Postfix since then but warnings, shows the Message-ID without saying whether the mail was accepted, shows a
            delivery to its recipient and not the Message-ID of that mail, or is that of this machine and not of the
            mail server; and the queue does not show it either.
    """
    settings = mail_settings()
    try:
        if not settings.logs_here:
            raise LogUnusable(f"it is not known where {settings.host} logs: set PERDURE_MAIL_LOG, if its log is here")
        return await ask_log(mail, question)
    except LogUnusable:
        with suppress(QueueUnusable):
            if found := (await ask_queue(mail, question)).receipt:
                return found
        raise


async def ask_log(mail: Mail, question: LookupContext, unread: Set[str] = frozenset()) -> Accepted | None:
    """The record of the mail in the log at `PERDURE_MAIL_LOG`.

    Args:
        unread: as `search`.

    Raises:
        LogUnusable: as `find_in_mail_log`.
    """
    settings, sought = mail_settings(), Sought.by(mail, question)
    zone = ZoneInfo(settings.log_zone) if settings.log_zone else None
    stop = threading.Event()
    try:
        return await asyncio.to_thread(search, settings.log, sought, zone, stop, unread)
    finally:
        stop.set()  # a thread can't be cancelled; it looks here


def search(
    log: Path,
    sought: Sought,
    zone: ZoneInfo | None = None,
    stop: threading.Event | None = None,
    unread: Set[str] = frozenset(),
) -> Accepted | None:
    """The record of a mail in `log` and its rotated parts.

    Args:
        zone: of time stamps that name none; None = this machine's.
        stop: when set, the search ends soon.
        unread: queue ids of mails that may be it, unless the log shows the Message-ID of each.
    """
    found = Log.since_moment(log, sought.since)
    stop = stop or threading.Event()
    traces = _Traces(sought, zone)
    needles = [b"message-id=<" + token.encode() + b"@" for token in sought.tokens]
    named = {_queued(line)[0] for needle in needles for _, line in _lines_with(found.parts, needle, stop)}
    if queue_ids := {each for each in named if each is not None}:
        for part, line in _lines_about(found.parts, queue_ids, stop):
            traces.read(line, part.written)
    receipt = traces.receipt()
    if receipt is None:
        if None in named:
            raise LogUnusable(f"the log {log} has its Message-ID in a line that is not of Postfix's usual form")
        found.check_complete(zone)
        _check_in_use(found, zone)
        _check_named(found, sought, zone, stop, unread)
    return receipt


def _check_in_use(log: Log, zone: ZoneInfo | None) -> None:
    """Return if Postfix has written to the log what it writes about each mail, and not warnings alone.

    Raises:
        LogUnusable: if not: Postfix logs elsewhere by now, or its syslog keeps warnings alone.
    """
    for part in reversed(log.parts):
        for block in reversed(deque(part.blocks(), maxlen=2)):
            for line in reversed(block.split(b"\n")):
                parsed = _LINE.fullmatch(line)
                if parsed is None or _ALARM.match(parsed["text"]):
                    continue
                stamp = stamp_of(line, part.written, zone)
                if stamp is not None and stamp >= log.since - CAUTION:
                    return
    raise LogUnusable(
        f"the log {log.live} has nothing of Postfix but warnings since the first attempt at {log.since.isoformat()}: "
        "set PERDURE_MAIL_LOG to the file to which it logs each mail, or resolve the doubt by hand"
    )


def _check_named(log: Log, sought: Sought, zone: ZoneInfo | None, stop: threading.Event, unread: Set[str]) -> None:
    """Return if the log shows the Message-ID of each mail that went to the same recipient since the first attempt.

    Postfix's log daemon loses the last lines when Postfix stops, and syslog those of the seconds before a crash of the
    machine. The mail is delivered all the same, if not before then after the next start, and its line with the
    Message-ID is missing.

    Raises:
        LogUnusable: if not.
    """
    nameless = {each.encode() for each in unread}
    to_it: Iterable[tuple[LogFile, bytes]] = ()  # without a recipient, the log may spell it in another way
    if sought.recipient is not None:
        to_it = _lines_with(log.parts, b"to=<" + sought.recipient.encode() + b">", stop, bytes.lower)
    for part, line in to_it:
        queue_id, rest = _queued(line)
        if queue_id is not None and rest.startswith(b"to=<"):  # a delivery, and no client that was refused
            at, delay = stamp_of(line, part.written, zone), _DELAY.search(rest)
            if at is None or delay is None or at - timedelta(seconds=float(delay[1])) >= sought.earliest:
                nameless.add(queue_id)
    if nameless:
        for _, line in _lines_about(log.parts, nameless, stop):
            queue_id, rest = _queued(line)
            if queue_id is not None and rest.startswith(b"message-id="):
                nameless.discard(queue_id)
    if nameless:
        raise LogUnusable(
            f"{min(nameless).decode()} is a mail to the same recipient, and the log {log.live} does not have the line "
            "with its Message-ID, or not yet: look at that mail, and resolve the doubt by hand"
        )


def _queued(line: bytes) -> tuple[bytes | None, bytes]:
    """The queue id that a line is about, and what it says; None if it is not a line that can be read."""
    parsed = _LINE.fullmatch(line)
    queued = parsed and _QUEUED.fullmatch(parsed["text"])
    return (queued["queue_id"], queued["rest"]) if queued else (None, b"")


def _lines_with(
    parts: tuple[LogFile, ...], needle: bytes, stop: threading.Event, spelt: Callable[[bytes], bytes] = bytes
) -> Iterator[tuple[LogFile, bytes]]:
    """The lines that have `needle` when they are `spelt` like it."""
    for part, block in _blocks(parts, stop):
        if needle in spelt(block):  # most of the log is passed over at memory speed
            yield from ((part, line) for line in block.split(b"\n") if needle in spelt(line))


def _lines_about(
    parts: tuple[LogFile, ...], queue_ids: set[bytes], stop: threading.Event
) -> Iterator[tuple[LogFile, bytes]]:
    ids = b"|".join(sorted(queue_ids))
    wanted = re.compile(rb"^.*\]: (?:(?:" + ids + rb"): |(?:dis)?connect from ).*$", re.MULTILINE)
    for part, block in _blocks(parts, stop):
        yield from ((part, found[0]) for found in wanted.finditer(block))


def _blocks(parts: tuple[LogFile, ...], stop: threading.Event) -> Iterator[tuple[LogFile, bytes]]:
    for part in parts:
        for block in part.blocks():
            if stop.is_set():
                raise LogUnusable("the search was given up: its time was over")
            yield part, block


@dataclass
class _Trace:
    """The lines of one queue id since Postfix last assigned it."""

    ours: bool = False
    piped: bool = False
    accepted: bool | None = None
    fate: str | None = None
    deliveries: dict[bytes, str] = field(default_factory=dict)
    sender: str | None = None
    recipients: set[str] = field(default_factory=set)
    at: datetime | None = None

    def may_be(self, sought: Sought) -> bool:
        """Whether the envelope and the time are those of the mail, as far as the log shows them."""
        return sought.may_be(sender=self.sender, recipients=self.recipients, at=self.at)

    @property
    def delivery(self) -> str:
        """How far it got; with several recipients (an alias) the worst."""
        reached = set(self.deliveries.values())
        return next((status for status in _BAD_FIRST if status in reached), self.fate or "queued")


class _Traces:
    """Reads log lines in their order and decides which queue ids with our Message-ID were accepted.

    The Message-ID alone proves nothing: Postfix logs it when the header arrives, also if the client then
    vanishes before the final dot. Proof is that the queue manager has the mail, or that its session ended
    with all DATA good. What `pickup` found was piped to `sendmail`, and is whole: it was accepted before any
    line of it was written, also if it is thrown away or bounced at once.
    """

    def __init__(self, sought: Sought, zone: ZoneInfo | None) -> None:
        self._sought, self._zone = sought, zone
        self._ours = re.compile(rb"message-id=<(?:" + "|".join(sought.tokens).encode() + rb")@")
        self._current: dict[bytes, _Trace] = {}
        self._sessions: dict[bytes, _Trace] = {}
        self._all: list[_Named] = []

    def read(self, line: bytes, written: datetime) -> None:
        """Take in one line that names a queue id of ours, or the end of a session.

        Args:
            written: when its file was last written.
        """
        parsed = _LINE.fullmatch(line)
        if parsed is None:
            return
        if parsed["text"].startswith(b"connect from "):
            self._sessions.pop(parsed["process"], None)  # a number that was given out again after a crash
        elif data := _DATA.match(parsed["text"]):
            self._session_ended(parsed["process"], data)
        elif queued := _QUEUED.fullmatch(parsed["text"]):
            queue_id, rest = queued["queue_id"], queued["rest"]
            if parsed["daemon"] == b"smtpd" and rest.startswith(b"client="):
                # Short queue ids are given out again: this is the beginning of a new mail.
                self._current[queue_id] = self._sessions[parsed["process"]] = _Trace()
            elif parsed["daemon"] == b"pickup" and rest.startswith(b"uid="):
                self._current[queue_id] = _Trace(piped=True, accepted=True)
                _addressed(self._current[queue_id], rest.partition(b" ")[2])
            elif parsed["daemon"] == b"cleanup":
                self._cleaned_up(queue_id, rest, line, written)
            elif queue_id in self._current:
                _moved(self._current[queue_id], rest)

    def receipt(self) -> Accepted | None:
        """The first queue id is the one that the client received; the last (after a content filter) has the delivery.

        Raises:
            LogUnusable: if one shows neither that it was accepted nor that it was not, or one has the Message-ID and
                another sender, recipient or time.
        """
        own = [named for named in self._all if named.trace.may_be(self._sought)]
        accepted = [named for named in own if named.trace.accepted]
        if accepted:
            return Accepted(queue_id=accepted[0].queue_id, delivery=accepted[-1].trace.delivery)
        open_ = [named.queue_id for named in own if named.trace.accepted is None]
        if open_:
            name = open_[0]
            raise LogUnusable(f"the log does not show yet whether {name} was accepted: look in the queue")
        others = [named for named in self._all if named not in own and named.trace.accepted is not False]
        if others:
            name = others[0].queue_id
            raise LogUnusable(f"{name} has its Message-ID, and another sender, recipient or time: {FORGED}")
        return None

    def _cleaned_up(self, queue_id: bytes, rest: bytes, line: bytes, written: datetime) -> None:
        if rest.startswith(b"message-id="):
            trace = self._current.get(queue_id)
            if trace is None or trace.ours:  # not from smtpd (`pickup`), or a new mail under an old name
                trace = self._current[queue_id] = _Trace()
            trace.ours = self._ours.match(rest) is not None
            if trace.ours:
                trace.at = stamp_of(line, written, self._zone)
                self._all.append(_Named(queue_id.decode(), trace))
        elif (trace := self._current.get(queue_id)) is not None:
            if trace.piped:  # no client waits for a "no" any more, so the sender gets a bounce
                _moved(trace, rest)
            word = rest.partition(b":")[0].removeprefix(b"milter-")
            if word == b"reject" and not trace.piped:
                trace.accepted = False
            elif word in _FATES:
                trace.fate = _FATES[word]

    def _session_ended(self, process: bytes, data: re.Match[bytes]) -> None:
        trace = self._sessions.pop(process, None)
        if trace is None or trace.accepted is not None:
            return
        if data["of"] is None:
            trace.accepted = True
        elif data["good"] == b"0":
            trace.accepted = False


@dataclass(frozen=True, slots=True)
class _Named:
    queue_id: str
    trace: _Trace


def _moved(trace: _Trace, rest: bytes) -> None:
    """Take in a line of the queue manager or of a delivery agent: only accepted mail gets so far."""
    _addressed(trace, rest)
    if status := _STATUS.match(rest):
        trace.accepted = True
        trace.deliveries[status["address"]] = status["status"].decode()
    elif rest == b"removed" or rest.endswith(b"(queue active)"):
        trace.accepted = True


def _addressed(trace: _Trace, rest: bytes) -> None:
    """Take in the envelope's addresses. One in quotes is none of ours, and could pretend to be two."""
    if rest.startswith(b"from=<"):
        found = _FROM.match(rest)
        trace.sender = found[1].decode(errors="replace").lower() if found else "?"
    elif rest.startswith(b"to=<"):
        found = _TO.match(rest)
        trace.recipients |= (
            {each.decode(errors="replace").lower() for each in found.groups(b"") if each} if found else {"?"}
        )
