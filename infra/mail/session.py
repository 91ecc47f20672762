"""One conversation of the embedded mail server: aiosmtpd's, with ordered faults and Postfix's log lines."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, AnyStr

from aiosmtpd.smtp import SMTP, Envelope, Session

from infra.mail.faults import At, Fault, Orders
from infra.mail.store import MailStore, message_id_of


class MailSession(SMTP):
    """One conversation; shows the ordered faults and writes the log."""

    def __init__(
        self,
        orders: Orders,
        store: MailStore,
        process: str,
        ended: Callable[[MailSession], None],
        **options: Any,
    ) -> None:
        """Prepare for one connection.

        Args:
            process: its name in the log.
            ended: called when the connection has ended.
            options: aiosmtpd's.
        """
        super().__init__(self, **options)  # is its own handler, see handle_DATA
        self._orders, self._store, self._process = orders, store, process
        self._ended = ended
        self._good: Counter[str] = Counter()
        self._tried: Counter[str] = Counter()
        self._last_command = "CONNECT"
        self._said_yes = False
        self._queue_id = ""
        self.over = asyncio.Event()

    def hang_up(self) -> None:
        """Close the connection now, whatever it waits for; replies already given still go out."""
        for transport in (self.transport, self._original_transport):
            if transport is not None:
                transport.close()
        # A TLS handshake that the client broke off would be waited for to its time-out.
        if self._handler_coroutine is not None:
            self._handler_coroutine.cancel()

    async def smtp_EHLO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd's names
        await self._run(At.EHLO, super().smtp_EHLO, hostname)

    async def smtp_STARTTLS(self, arg: str) -> None:  # noqa: N802
        await self._run(At.STARTTLS, super().smtp_STARTTLS, arg)

    async def smtp_AUTH(self, arg: str) -> None:  # noqa: N802
        await self._run(At.AUTH, super().smtp_AUTH, arg)

    async def smtp_MAIL(self, arg: str | None) -> None:  # noqa: N802
        await self._run(At.MAIL, super().smtp_MAIL, arg)

    async def smtp_RCPT(self, arg: str | None) -> None:  # noqa: N802
        await self._run(At.RCPT, super().smtp_RCPT, arg)
        if self.envelope is not None and len(self.envelope.rcpt_tos) == 1 and self._said_yes:
            self._queue_id = self._store.new_queue_id()
            self._store.begun(self._process, self._queue_id)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        await self._run(At.DATA, self._data, arg)

    async def smtp_QUIT(self, arg: str) -> None:  # noqa: N802
        self._note("QUIT")
        self._good["quit"] += 1
        await super().smtp_QUIT(arg)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """The final dot has come: accept the mail, or show what was ordered."""
        content = envelope.original_content or b""
        self._store.header_seen(self._queue_id, message_id_of(content))
        fault = await self._fault(At.END)
        if fault is not None:
            return fault.reply
        self._store.accept(self._queue_id, envelope.mail_from or "", list(envelope.rcpt_tos), content)
        self._good["data"] += 1
        while self._store.holds_replies:
            await asyncio.sleep(0.02)
        fault = await self._fault(At.ACCEPTED)
        return fault.reply if fault is not None else f"250 2.0.0 Ok: queued as {self._queue_id}"

    async def push(self, status: AnyStr) -> None:
        """Send a reply."""
        first: str | bytes = status[:1]
        self._said_yes = first in ("2", b"2")
        await super().push(status)

    async def _handle_client(self) -> None:
        self._store.write(self._process, "connect from localhost[127.0.0.1]")
        try:
            fault = await self._fault(At.GREETING)
            if fault is None:
                await super()._handle_client()
            else:
                await self.push(fault.reply)
                await self._reader.read()  # until the client has gone
        except ConnectionResetError:
            pass  # it is in the log
        finally:
            self._finish()  # aiosmtpd gets no end of the connection when the client turns down our certificate

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended, from either side."""
        super().connection_lost(error)
        self._finish()

    def _finish(self) -> None:
        if self.over.is_set():
            return
        self.over.set()
        lost_after = "" if self._tried["quit"] else self._last_command
        self._store.ended(self._process, self._good, self._tried, lost_after)
        self._ended(self)

    async def _run(self, at: At, command: Callable[[Any], Awaitable[None]], arg: str | None) -> None:
        self._note(at.upper())
        self._said_yes = False
        fault = await self._fault(at)
        if fault is not None:
            await self.push(fault.reply)
            return
        await command(arg)
        if self._said_yes and at is not At.DATA:
            self._good[at] += 1

    async def _data(self, arg: str) -> None:
        if self._orders.is_due(At.CONTENT):
            await self.push("354 End data with <CR><LF>.<CR><LF>")
            first = await self._reader.readuntil(b"\r\n")
            self._store.header_seen(self._queue_id, message_id_of(first))
            fault = await self._fault(At.CONTENT)
            if fault is not None:
                await self.push(fault.reply)
                return
        await super().smtp_DATA(arg)

    async def _fault(self, at: At) -> Fault | None:
        """A fault that gives a reply and goes on; does not return from one that hangs up or falls silent."""
        fault = self._orders.take(at)
        if fault is None or (fault.reply and not fault.close):
            return fault
        if fault.reply:
            await self.push(fault.reply)
        if fault.close:
            self.hang_up()
        await asyncio.Event().wait()  # the end of the connection cancels this
        return None

    def _note(self, command: str) -> None:
        self._tried[command.lower()] += 1
        self._last_command = command
