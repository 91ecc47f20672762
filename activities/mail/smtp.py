"""Sends a mail by SMTP (RFC 5321): one conversation, one recipient, no retry of its own.

The mail is handed over at one moment, the final dot. Everything before it can be taken back by hanging up.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path

import aiosmtplib
from aiosmtplib import SMTPException, SMTPHeloError, SMTPResponse, SMTPResponseException
from aiosmtplib.protocol import SMTPProtocol
from opentelemetry.trace import Span

from activities.mail.contracts.mail import SEND_MAIL, Accepted, Mail
from activities.mail.message import message_bytes, needs_smtputf8, wire_address
from activities.mail.settings import MailSettings, StartTls, mail_settings
from activities.mail.smtp_outcomes import (
    TABLE,
    End,
    Stage,
    Verdict,
    has_one_code,
    masked,
    outcome,
    queue_id_in,
    verdict_of_reply,
)
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.telemetry import traces

_PIECE = 65_536  # bytes

mail_settings()  # a worker with a wrong setting must not start


@SEND_MAIL.performs
async def send_mail(mail: Mail, attempt: Attempt) -> Accepted:
    """Hand `mail` over to the mail server, with a Message-ID made of the key, and return its receipt.

    Raises:
        NotDone: the server certainly did not take it: not reached, 4yz, or it objects to us rather than to
            the mail.
        Refused: 5yz for this mail, or the server lacks SMTPUTF8 and an address needs it.
        InDoubt: the final dot was sent, and no reply that can be read came back in time.
    """
    settings = mail_settings()
    content = message_bytes(mail, attempt.key, attempt.first_at, settings.message_id_domain)
    conversation = _Conversation(settings, mail, attempt)
    with _span(settings) as span:
        try:
            # RFC 5321, 4.5.3.2 would wait 10 minutes for the last reply. The doubt is looked up instead.
            async with asyncio.timeout(attempt.remaining):
                await conversation.open()
                await conversation.address(len(content))
                reply = await conversation.hand_over(content)
        except (SMTPException, OSError) as error:
            # `from None`: the library's errors quote replies, and replies quote addresses.
            raise conversation.failed(error) from None
        finally:
            span.set_attribute("smtp.stage", conversation.stage.value)
            conversation.leave()
    text = masked(reply.message, mail.sender, mail.recipient)
    return Accepted(queue_id=queue_id_in(reply.message), reply=f"{reply.code} {text}".strip())


def _span(settings: MailSettings) -> AbstractContextManager[Span]:
    """Where the conversation goes and how far it comes, and nothing of the mail. No header of the mail shows which
    trace it belongs to: that is of no use to its reader, and stays with it for ever."""
    server = {"server.address": settings.host, "server.port": settings.port}
    return traces.span("smtp", server, kind=traces.SpanKind.CLIENT)


class _Conversation:
    """One connection to the mail server; `stage` names the expected reply."""

    def __init__(self, settings: MailSettings, mail: Mail, attempt: Attempt) -> None:
        self._settings = settings
        self._mail = mail
        self._attempt = attempt
        self._accepted = False
        self.stage = Stage.CONNECT
        self._client = aiosmtplib.SMTP(
            hostname=settings.host,
            port=settings.port,
            local_hostname=settings.helo_name,
            timeout=attempt.remaining,
            use_tls=settings.tls,
            start_tls=False,  # done here, so that each step has its stage
            tls_context=_tls_context(settings.checks_certificate, settings.ca_file),
        )

    async def open(self) -> None:
        """Connect, greet, encrypt and log in, according to the settings."""
        try:
            await self._client.connect()
        except SMTPResponseException:
            self.stage = Stage.GREETING
            raise
        except ValueError as error:  # the name can't be looked up, so nothing was sent
            why = f"PERDURE_MAIL_HOST={self._settings.host} is no name of a host: {error}"
            raise outcome(Verdict.OURS, why) from error
        await self._hello()
        wanted = self._settings.starttls
        offered = wanted is StartTls.OFFERED and self._client.supports_extension("starttls")
        if not self._settings.tls and (offered or wanted is StartTls.REQUIRED):
            self.stage = Stage.STARTTLS
            await self._client.starttls()
            await self._hello()  # RFC 3207, 4.2: the earlier replies are void
        if self._settings.username is not None and self._settings.password is not None:
            self.stage = Stage.AUTH
            await self._client.login(self._settings.username, self._settings.password.get_secret_value())

    async def address(self, size: int) -> None:
        """Send MAIL and RCPT. `size`: size of the content in bytes."""
        options: list[str] = []
        if self._client.supports_extension("size"):
            options.append(f"SIZE={size}")
        if needs_smtputf8(self._mail):
            if not self._client.supports_extension("smtputf8"):
                raise Refused("an address needs SMTPUTF8 (RFC 6531), and the mail server does not offer it")
            options += ["BODY=8BITMIME", "SMTPUTF8"]
        await self._command(Stage.MAIL, f"MAIL FROM:<{wire_address(self._mail.sender)}>", *options)
        await self._command(Stage.RCPT, f"RCPT TO:<{wire_address(self._mail.recipient)}>")

    async def hand_over(self, content: bytes) -> SMTPResponse:
        """Send the content, then the final dot, and return the reply that accepts it."""
        await self._command(Stage.DATA, "DATA", hope=3)
        self.stage = Stage.CONTENT
        protocol, transport = self._client.protocol, self._client.transport
        if protocol is None or not isinstance(transport, asyncio.WriteTransport):
            raise ConnectionResetError("closed by the server")
        stuffed = re.sub(rb"(?m)^\.", b"..", content)  # RFC 5321, 4.5.2
        # In pieces that have left our buffer before the next: when the connection breaks here, the dot was
        # never sent.
        for start in range(0, len(stuffed), _PIECE):
            protocol.write(stuffed[start : start + _PIECE])
            while transport.get_write_buffer_size():  # noqa: ASYNC110 - the transport has no event for it
                await asyncio.sleep(0.01)
        self._attempt.before_first_byte()
        if not protocol.is_connected:
            raise ConnectionResetError("closed by the server")
        self.stage = Stage.END
        received = _recorded(protocol)
        protocol.write(b".\r\n")
        reply = await protocol.read_response()
        if not has_one_code(bytes(received)):
            raise SMTPResponseException(-1, f"lines with different codes, the last {reply.code}")
        self._expect(reply, hope=2)
        self._accepted = True
        return reply

    def failed(self, error: Exception) -> NotDone | Refused | InDoubt:
        """The outcome that `error` means at this stage."""
        if isinstance(error, SMTPResponseException):
            verdict = verdict_of_reply(self.stage, error.code, error.message)
            code = str(error.code) if error.code > 0 else "not a reply:"
            why = f"{code} {error.message}"
        elif isinstance(error, TimeoutError):
            verdict, why = TABLE[self.stage][End.SILENCE], End.SILENCE.value
        elif isinstance(error.__cause__ or error, ssl.SSLCertVerificationError):
            verdict, why = Verdict.OURS, "the server's certificate is not valid for its name"
        elif isinstance(error, OSError):
            verdict, why = TABLE[self.stage][End.LOST], f"{End.LOST.value}: {error}"
        else:  # the server lacks an extension that the settings require
            verdict, why = Verdict.OURS, str(error)
        server = f"{self._settings.host}:{self._settings.port}"
        why = masked(why, self._mail.sender, self._mail.recipient)
        return outcome(verdict, f"{server}, {self.stage}: {why}")

    def leave(self) -> None:
        """Hang up without waiting: nothing may come between the server's yes and the receipt."""
        transport = self._client.transport
        if self.stage in (Stage.CONTENT, Stage.END) and not self._accepted:
            _hang_up(transport)
        elif self._client.protocol is not None:
            with suppress(SMTPException):
                self._client.protocol.write(b"QUIT\r\n")
        self._client.close()

    async def _hello(self) -> None:
        self.stage = Stage.HELLO
        try:
            await self._client.ehlo()
        except SMTPHeloError as error:
            if error.code not in (500, 502, 504):
                raise
            await self._client.helo()  # RFC 5321, 3.2: a server from before EHLO

    async def _command(self, stage: Stage, *words: str, hope: int = 2) -> None:
        self.stage = stage
        self._expect(await self._client.execute_command(*(word.encode() for word in words)), hope)

    def _expect(self, reply: SMTPResponse, hope: int) -> None:
        """RFC 5321, 4.2: the first digit decides."""
        if reply.code // 100 != hope:
            raise SMTPResponseException(reply.code, reply.message)


def _recorded(protocol: SMTPProtocol) -> bytearray:
    """The bytes that arrive from now on. Of a reply with several lines, aiosmtplib keeps the last code alone."""
    received, read = bytearray(), protocol.data_received

    def data_received(data: bytes) -> None:
        received.extend(data)
        read(data)

    protocol.data_received = data_received  # type: ignore[method-assign]
    return received


@cache
def _tls_context(checks_certificate: bool, ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if not checks_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _hang_up(transport: asyncio.BaseTransport | None) -> None:
    """Discard unsent bytes, because a final dot must not arrive after the attempt's deadline."""
    if isinstance(transport, asyncio.WriteTransport):
        connection = transport.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
