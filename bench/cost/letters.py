"""Hands a mail to the SMTP stand-in: the same few lines for every way that is measured, so that they cancel out."""

from __future__ import annotations

import asyncio
import os
import socket


async def hand_over(sender: str, recipient: str, subject: str, body: str, message_id: str) -> str:
    """One conversation with the server at `BENCH_SMTP_PORT`; returns its last reply.

    Raises:
        ConnectionError: it refused something.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["BENCH_SMTP_PORT"]))
    try:
        await _reply(reader, b"220")
        for command in ("EHLO bench", f"MAIL FROM:<{sender}>", f"RCPT TO:<{recipient}>"):
            writer.write(command.encode() + b"\r\n")
            await _reply(reader, b"250")
        writer.write(b"DATA\r\n")
        await _reply(reader, b"354")
        writer.write(_mail(sender, recipient, subject, body, message_id))
        return await _reply(reader, b"250")
    finally:
        writer.close()


def hand_over_blocking(sender: str, recipient: str, subject: str, body: str, message_id: str) -> str:
    """The same, for code that runs in threads."""
    with socket.create_connection(("127.0.0.1", int(os.environ["BENCH_SMTP_PORT"]))) as connection:
        lines = connection.makefile("rb")
        _checked(lines.readline(), b"220")
        for command in ("EHLO bench", f"MAIL FROM:<{sender}>", f"RCPT TO:<{recipient}>"):
            connection.sendall(command.encode() + b"\r\n")
            _checked(lines.readline(), b"250")
        connection.sendall(b"DATA\r\n")
        _checked(lines.readline(), b"354")
        connection.sendall(_mail(sender, recipient, subject, body, message_id))
        return _checked(lines.readline(), b"250")


def _mail(sender: str, recipient: str, subject: str, body: str, message_id: str) -> bytes:
    head = f"From: {sender}\r\nTo: {recipient}\r\nSubject: {subject}\r\nMessage-ID: <{message_id}>\r\n\r\n"
    return (head + body.replace("\n", "\r\n") + "\r\n.\r\n").encode()


def _checked(line: bytes, wanted: bytes) -> str:
    if not line.startswith(wanted):
        raise ConnectionError(f"the stand-in sent {line!r} instead of {wanted!r}")
    return line.decode().strip()


async def _reply(reader: asyncio.StreamReader, wanted: bytes) -> str:
    return _checked(await reader.readline(), wanted)
