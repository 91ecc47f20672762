"""The embedded mail server keeps what it accepts, says what it did as Postfix does, and survives being killed."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from activities.mail.contracts.mail import Accepted
from activities.mail.mail_log import find_in_mail_log
from activities.mail.smtp import send_mail
from infra.mail.server import At, Fault, MailServer, count_by_message_id, replies_held
from perdure import InDoubt, NotDone, Refused
from perdure.servers.ports import free_port
from tests.applications.mail.fixtures import LETTER, attempt, mail_server, question, settings
from tests.mail_secret import token_of

FOLDER = Path(__file__).parents[1] / "logs"


async def test_every_mail_that_was_accepted_is_in_the_maildir_once(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        given = [attempt() for _ in range(20)]
        receipts = await asyncio.gather(*(send_mail(LETTER, one) for one in given))
    assert count_by_message_id(server.maildir) == {f"<{token_of(one.key)}@app.example>": 1 for one in given}
    assert len({receipt.queue_id for receipt in receipts}) == 20


async def test_a_mail_sent_twice_is_counted_twice(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        one = attempt()
        await send_mail(LETTER, one)
        await send_mail(LETTER, one)
    assert count_by_message_id(server.maildir) == {f"<{token_of(one.key)}@app.example>": 2}


def test_a_maildir_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert not count_by_message_id(tmp_path / "maildir")


async def test_the_log_has_the_lines_that_postfix_writes(tmp_path: Path) -> None:
    async with mail_server(tmp_path, client={"helo_name": "app.example"}) as server:
        await send_mail(LETTER, attempt())
        while " disconnect from " not in server.log.read_text():
            await asyncio.sleep(0.01)
        ours = _shapes(server.log.read_text())
    postfix = _shapes((FOLDER / "postfix_rfc3339.txt").read_text())
    of_one_mail = ["connect from", "client=", "message-id=", "from=<", "to=<", "removed", "disconnect from"]
    assert [next(word for word in reversed(of_one_mail) if word in line) for line in ours[1:]] == of_one_mail
    assert set(ours[1:]) <= postfix_or_local(postfix)


async def test_an_ordered_fault_happens_as_often_as_ordered(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        server.order(At.RCPT, Fault("450 4.2.0 greylisted"), times=2)
        one = attempt()
        for _ in range(2):
            with pytest.raises(NotDone):
                await send_mail(LETTER, one)
        await send_mail(LETTER, one)
        server.order(At.RCPT, Fault("550 5.1.1 unknown"))
        with pytest.raises(Refused):
            await send_mail(LETTER, attempt())
        server.orders.withdraw()
        await send_mail(LETTER, attempt())
    assert count_by_message_id(server.maildir).total() == 2


async def test_a_server_that_stops_hangs_up_on_those_who_wait(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        server.order(At.ACCEPTED, Fault())
        sending = asyncio.ensure_future(send_mail(LETTER, attempt(60)))
        await server.orders.happened(At.ACCEPTED)
        await server.stop()
        with pytest.raises(InDoubt, match="the connection was lost"):
            await sending
        assert count_by_message_id(server.maildir).total() == 1


async def test_a_killed_server_keeps_what_it_accepted_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    with settings(port=port, log=tmp_path / "mail.log"):
        slow, quick = attempt(), attempt()
        async with _process(tmp_path, port) as server:
            with replies_held(tmp_path / "maildir"):
                sending = asyncio.ensure_future(send_mail(LETTER, slow))
                while not count_by_message_id(tmp_path / "maildir"):
                    await asyncio.sleep(0.01)
                server.kill()
                with pytest.raises(InDoubt):
                    await sending
        found = await find_in_mail_log(LETTER, question(slow))
        assert isinstance(found, Accepted)
        async with _process(tmp_path, port) as server:
            receipt = await send_mail(LETTER, quick)
            server.send_signal(signal.SIGTERM)
            assert await server.wait() == 0
    assert receipt.queue_id != found.queue_id
    assert count_by_message_id(tmp_path / "maildir").total() == 2


async def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        with pytest.raises(OSError, match="in use"):
            await MailServer(tmp_path / "other", tmp_path / "other.log", server.port).start()


@asynccontextmanager
async def _process(folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The server as a process of its own, listening."""
    paths = [f"--maildir={folder / 'maildir'}", f"--log={folder / 'mail.log'}"]
    command = [sys.executable, "-m", "infra.mail.server", f"--port={port}", *paths]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        assert await server.stdout.readline() == f"mail server listens on 127.0.0.1:{port}\n".encode()
        yield server
    finally:
        if server.returncode is None:
            server.kill()
        await server.communicate()  # to the end of its output, which comes a moment after its own


def _shapes(log: str) -> list[str]:
    """The lines of a log without what differs from mail to mail."""
    shapes = []
    for line in log.splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00 \S+ postfix", line)
        text = line.split(" ", 2)[2]
        text = re.sub(r"\b[0-9A-Za-z]{13,15}: ", "ID: ", text)
        text = re.sub(r"message-id=<[^>]*>", "message-id=<>", text)
        text = re.sub(r"(relay|delay|delays|size)=[^, ]*", r"\1=", text)
        text = re.sub(r"(from|to)=<[^>]+>", r"\1=<>", text)
        shapes.append(re.sub(r"\[\d+\]|\(.* .*\)", "", text))
    return shapes


def postfix_or_local(shapes: list[str]) -> set[str]:
    """Postfix handed the recorded mails on by `smtp`; the embedded server keeps them, as `local` does."""
    return set(shapes) | {shape.replace("postfix/smtp:", "postfix/local:") for shape in shapes}
