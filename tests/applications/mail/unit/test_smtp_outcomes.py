"""Each way in which an SMTP conversation can end has the right outcome, with a real server that fails as ordered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.mail.contracts.mail import Mail
from activities.mail.smtp import send_mail
from activities.mail.smtp_outcomes import OURS_PAUSE, TABLE, End, Stage, Verdict, masked, queue_id_in
from infra.certificates import Certificate
from infra.mail.server import At, Fault, MailServer, count_by_message_id
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.servers.ports import free_port
from tests.applications.mail.fixtures import LETTER, attempt, mail_server, settings
from tests.deadline import until, with_time_for

CLOSE, SILENCE = Fault(close=True), Fault()

# Stage, where the server fails, and the five ways it can end there; the text is one that servers give.
REPLIES = {
    Stage.GREETING: (At.GREETING, "421 4.3.2 come back later", "554 5.3.2 no SMTP service here"),
    Stage.HELLO: (At.EHLO, "451 4.3.0 try later", "550 5.7.1 not welcome"),
    Stage.STARTTLS: (At.STARTTLS, "454 4.7.0 TLS not available", "554 5.7.3 no TLS"),
    Stage.AUTH: (At.AUTH, "454 4.7.0 temporary failure", "535 5.7.8 wrong password"),
    Stage.MAIL: (At.MAIL, "452 4.3.1 no space", "552 5.3.4 too big"),
    Stage.RCPT: (At.RCPT, "450 4.2.0 greylisted", "550 5.1.1 no such user"),
    Stage.DATA: (At.DATA, "451 4.3.0 not now", "554 5.5.1 no valid recipients"),
    Stage.END: (At.END, "451 4.7.1 try again", "554 5.7.1 spam"),
}
ENDS = [
    (stage, at, end, fault)
    for stage, (at, later, no) in REPLIES.items()
    for end, fault in zip(End, (Fault(later), Fault(no), Fault("hello, is this SMTP?"), CLOSE, SILENCE), strict=True)
]


@pytest.fixture
async def server(tmp_path: Path, certificate: Certificate) -> AsyncIterator[MailServer]:
    client: dict[str, object] = {
        "starttls": "required", "ca_file": certificate.cert, "username": "app", "password": "secret",
    }  # fmt: skip
    async with mail_server(tmp_path, client=client, tls=certificate.context(), users={"app": "secret"}) as server:
        yield server


async def outcome_of(given: Attempt, mail: Mail = LETTER) -> Verdict:
    try:
        await send_mail(mail, given)
    except NotDone as not_done:
        return {None: Verdict.AGAIN, OURS_PAUSE: Verdict.OURS}[not_done.retry_after]
    except Refused:
        return Verdict.REFUSED
    except InDoubt:
        return Verdict.DOUBT
    raise AssertionError("the mail was accepted")


async def outcome_at(server: MailServer, at: At) -> tuple[Verdict, int]:
    """The outcome of an attempt whose time is over while the server is silent at `at`, and how many it took to come so
    far."""
    attempts = 0

    async def outcome_after(seconds: float) -> Verdict:
        nonlocal attempts
        attempts += 1
        return await outcome_of(attempt(seconds))

    return await with_time_for(lambda: server.orders.has_happened(at), outcome_after, 0.4), attempts


@pytest.mark.parametrize(("stage", "at", "end", "fault"), ENDS, ids=lambda value: getattr(value, "name", ""))
async def test_each_end_at_each_stage_has_the_outcome_of_the_table(
    server: MailServer, stage: Stage, at: At, end: End, fault: Fault
) -> None:
    server.order(at, fault)
    verdict, attempts = await outcome_at(server, at) if fault == SILENCE else (await outcome_of(attempt()), 1)
    assert verdict is TABLE[stage][end]
    await server.orders.happened(at)
    assert not count_by_message_id(server.maildir)
    assert server.log.read_text().count(" connect from ") == attempts, "the client tried again on its own"


@pytest.mark.parametrize(("end", "fault"), [(End.LOST, CLOSE), (End.SILENCE, SILENCE)])
async def test_a_connection_that_breaks_within_the_content_leaves_no_doubt(
    server: MailServer, end: End, fault: Fault
) -> None:
    server.order(At.CONTENT, fault)
    long = LETTER.model_copy(update={"body": "\N{GRINNING FACE}" * 1_000_000})  # 12 MB: more than the system buffers
    assert await outcome_of(attempt(1.5), long) is TABLE[Stage.CONTENT][end] is Verdict.AGAIN


async def test_a_server_that_is_not_there_means_not_done() -> None:
    with settings(port=free_port()):
        assert await outcome_of(attempt()) is TABLE[Stage.CONNECT][End.LOST]


async def test_a_host_without_an_address_means_not_done() -> None:
    with settings(host="mail.invalid"):
        assert await outcome_of(attempt()) is Verdict.AGAIN


@pytest.mark.parametrize("host", ["mail..example.com", "m" * 64 + ".example.com"])
@pytest.mark.parametrize("tls", [False, True])
async def test_a_host_that_is_no_name_is_our_fault_and_leaves_no_doubt(host: str, tls: bool) -> None:
    with settings(host=host, tls=tls):
        assert await outcome_of(attempt()) is Verdict.OURS


async def test_an_attempt_without_time_does_not_even_connect(server: MailServer) -> None:
    assert await outcome_of(attempt(0.0)) is TABLE[Stage.CONNECT][End.SILENCE]
    assert not count_by_message_id(server.maildir)


def test_the_table_keeps_to_the_rules_of_rfc_5321() -> None:
    named = {Stage.MAIL, Stage.RCPT, Stage.DATA, Stage.END}  # the stages at which a no is about this mail
    for stage, row in TABLE.items():
        for end, verdict in row.items():
            if end is End.LATER:
                assert verdict is Verdict.AGAIN
            elif end is End.NO:
                assert verdict is (Verdict.REFUSED if stage in named else Verdict.OURS)
            else:
                assert verdict is (Verdict.DOUBT if stage is Stage.END else Verdict.AGAIN)


def test_the_table_has_no_entry_that_is_not_tried_here() -> None:
    tried = {(stage, end) for stage, _, end, _ in ENDS}
    tried |= {(stage, end) for stage in (Stage.CONNECT, Stage.CONTENT) for end in (End.LOST, End.SILENCE)}
    assert tried == {(stage, end) for stage, row in TABLE.items() for end in row}


@pytest.mark.parametrize(
    ("at", "reply", "verdict"),
    [
        (At.MAIL, "530 5.7.0 authentication required", Verdict.OURS),
        (At.MAIL, "553 5.1.8 sender has no mail domain", Verdict.REFUSED),
        (At.RCPT, "550 5.7.13 account disabled", Verdict.OURS),
        (At.RCPT, "550 5.7.1 <jo.doe@reader.example> members only", Verdict.REFUSED),
        (At.RCPT, "554 5.7.1 relay access denied", Verdict.REFUSED),
        (At.RCPT, "421 4.3.2 shutting down", Verdict.AGAIN),
        (At.RCPT, "251 will forward", None),
        (At.DATA, "503 5.5.1 bad sequence", Verdict.OURS),
        (At.END, "421 4.3.2 shutting down", Verdict.AGAIN),
        (At.END, "552 5.2.2 mailbox full", Verdict.REFUSED),
        (At.END, "354 go on", Verdict.DOUBT),
        (At.END, "150 wait", Verdict.DOUBT),
        (At.END, "25", Verdict.DOUBT),
        (At.END, "251 2.0.0 fine", None),
        (At.END, "250-one\r\n550 two", Verdict.DOUBT),
        (At.END, "550-one\r\n250 two", Verdict.DOUBT),
        (At.END, "550-one\r\n550 two", Verdict.REFUSED),
    ],
)
async def test_a_reply_means_what_its_code_says(
    server: MailServer, at: At, reply: str, verdict: Verdict | None
) -> None:
    server.order(at, Fault(reply))
    if verdict is not None:
        assert await outcome_of(attempt()) is verdict
    elif at is At.END:
        assert (await send_mail(LETTER, attempt())).reply == reply
    else:
        assert await outcome_of(attempt()) is Verdict.OURS  # the next command: 503, as nothing was really set


async def test_a_reply_that_is_too_late_leaves_doubt_and_the_mail_is_there(server: MailServer) -> None:
    server.order(At.ACCEPTED, SILENCE)
    seconds = 0.4
    while await outcome_of(attempt(seconds)) is Verdict.AGAIN:  # a busy machine has not sent it by then
        seconds *= 2
    await until(lambda: count_by_message_id(server.maildir).total() == 1, "the mail")


async def test_a_connection_that_closes_right_after_the_yes_changes_nothing(server: MailServer) -> None:
    server.order(At.ACCEPTED, Fault("250 2.0.0 Ok: queued as 4WxyZ12345", close=True))
    assert (await send_mail(LETTER, attempt())).queue_id == "4WxyZ12345"


async def test_a_connection_that_closes_instead_of_the_yes_leaves_doubt(server: MailServer) -> None:
    server.order(At.ACCEPTED, CLOSE)
    assert await outcome_of(attempt()) is Verdict.DOUBT
    assert count_by_message_id(server.maildir).total() == 1


async def test_no_outcome_and_no_receipt_names_an_address(server: MailServer) -> None:
    server.order(At.RCPT, Fault("550 5.1.1 <jo.doe@reader.example>: user Jo.Doe unknown at reader.example"), times=1)
    with pytest.raises(Refused, match=r"RCPT: 550 5\.1\.1 <\.\.\.>: user <\.\.\.> unknown") as refused:
        await send_mail(LETTER, attempt())
    assert "jo.doe" not in refused.value.why.lower()
    server.order(At.END, Fault("250 2.0.0 Ok jo.doe@reader.example queued as 4Q"))
    receipt = await send_mail(LETTER, attempt())
    assert receipt.queue_id == "4Q"
    assert "jo.doe" not in receipt.model_dump_json()


class _FrozenBeforeTheDot(Attempt):
    """Its time is over when it comes to the bytes that count."""

    def before_first_byte(self) -> None:
        raise NotDone("the attempt's time was over before the first byte left")


async def test_an_attempt_that_was_frozen_after_the_content_sends_no_final_dot(server: MailServer) -> None:
    given = attempt()
    frozen = _FrozenBeforeTheDot(given.key, 1, given.first_at, given.ends_at)
    server.order(At.END, SILENCE)
    with pytest.raises(NotDone, match="time was over"):
        await send_mail(LETTER, frozen)
    await server.stop()
    log = server.log.read_text()
    assert "lost connection after DATA" in log
    assert "message-id" not in log, "the final dot arrived"


async def test_a_cancelled_attempt_hangs_up_and_stays_cancelled(server: MailServer) -> None:
    server.order(At.END, SILENCE)
    sending = asyncio.ensure_future(send_mail(LETTER, attempt(60.0)))
    await server.orders.happened(At.END)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await until(lambda: "lost connection after DATA" in server.log.read_text(), "the end of the connection")


@pytest.mark.parametrize(
    ("reply", "queue_id"),
    [
        ("2.0.0 Ok: queued as 4WxyZ12345", "4WxyZ12345"),
        ("OK id=1tDoyP-000000001Ab-2cde", "1tDoyP-000000001Ab-2cde"),
        ("2.0.0 4ALDe5bM012345 Message accepted for delivery", "4ALDe5bM012345"),
        ("2.0.0 OK 1732160000 a1-20020a05600c0001 - gsmtp", "1732160000"),
        ("Ok 0102019350a1b2c3-1a2b3c4d-0000", "0102019350a1b2c3-1a2b3c4d-0000"),
        ("OK", ""),
    ],
)
def test_the_queue_id_is_read_from_the_replies_of_common_servers(reply: str, queue_id: str) -> None:
    assert queue_id_in(reply) == queue_id


def test_a_masked_reply_is_one_short_line() -> None:
    assert masked("to <a@b.example>\r\nor c@d.example \x1b[1m" + "x" * 500).startswith("to <...> or <...> [1mx")
    assert len(masked("x" * 500)) == 200
