"""What goes over the wire: the same bytes for every attempt, and only what the receiver can read as meant."""

from __future__ import annotations

import email
import email.policy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from activities.mail.contracts.mail import Mail
from activities.mail.message import message_bytes
from activities.mail.smtp import send_mail
from infra.mail.server import count_by_message_id
from perdure import Entity, Refused
from perdure.contracts import Key
from tests.applications.mail.fixtures import LETTER, attempt, mail_server
from tests.mail_secret import token_of

KEY = Key.of(Entity("comment", "42"), "send-mail")
FIRST_AT = datetime(2026, 11, 21, 3, 14, 9, 123456, UTC)
RICH = Mail(
    sender="news@bücher.example",
    sender_name="Bücher & „Läden“",
    recipient="jo@reader.example",
    reply_to="answers@app.example",
    subject="Grüße \N{GRINNING FACE} " + "und noch ein Wort " * 20,
    body="Zeile\n.\n..zwei\r\nFrom here\rLast \N{EURO SIGN} " + "x" * 3000,
    headers={"List-Unsubscribe": "<https://app.example/" + "u" * 300 + ">"},
)


async def test_each_attempt_sends_the_same_bytes_under_the_same_message_id(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        first = attempt()
        await send_mail(RICH, first)
        await send_mail(RICH, replace(first, number=2))
        one, two = (path.read_bytes() for path in (server.maildir / "new").iterdir())
    assert one == two == message_bytes(RICH, first.key, first.first_at)
    assert count_by_message_id(server.maildir) == {f"<{token_of(first.key)}@xn--bcher-kva.example>": 2}


def test_the_receiver_reads_what_was_meant() -> None:
    raw = message_bytes(RICH, KEY, FIRST_AT)
    read = email.message_from_bytes(raw, policy=email.policy.SMTP)
    assert read["Message-ID"] == f"<{token_of(KEY)}@xn--bcher-kva.example>"
    assert read["Date"].datetime == FIRST_AT.replace(microsecond=0)
    assert read["From"].addresses[0].display_name == RICH.sender_name
    assert read["From"].addresses[0].addr_spec == "news@xn--bcher-kva.example"
    assert read["Reply-To"] == "answers@app.example"
    assert read["Subject"] == RICH.subject
    assert read["List-Unsubscribe"] == RICH.headers["List-Unsubscribe"]
    text = read.get_content().replace("\r\n", "\n")
    assert text == RICH.body.replace("\r\n", "\n").replace("\r", "\n") + "\n"


def test_every_line_fits_into_smtp() -> None:
    lines = message_bytes(RICH, KEY, FIRST_AT).split(b"\r\n")
    assert max(map(len, lines)) <= 998  # RFC 5322, 2.1.1
    assert all(line.isascii() and b"\r" not in line and b"\n" not in line for line in lines)


def test_a_message_id_with_a_long_domain_stays_on_one_line() -> None:
    domain = ".".join(["a" * 60] * 4)
    assert f"Message-ID: <{token_of(KEY)}@{domain}>\r\n".encode() in message_bytes(LETTER, KEY, FIRST_AT, domain)


async def test_a_non_ascii_local_part_goes_where_smtputf8_is_offered(tmp_path: Path) -> None:
    to = LETTER.model_copy(update={"recipient": "jö@bücher.example"})
    async with mail_server(tmp_path) as server:
        receipt = await send_mail(to, attempt())
        kept = (server.maildir / "new" / receipt.queue_id).read_bytes()
    assert "\r\nTo: jö@xn--bcher-kva.example\r\n".encode() in kept


async def test_a_non_ascii_local_part_is_refused_where_smtputf8_is_not_offered(tmp_path: Path) -> None:
    to = LETTER.model_copy(update={"recipient": "jö@reader.example"})
    async with mail_server(tmp_path, smtputf8=False) as server:
        with pytest.raises(Refused, match="SMTPUTF8"):
            await send_mail(to, attempt())
    assert not count_by_message_id(server.maildir)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("recipient", "jo", "needs an @"),
        ("recipient", "jo@", "a domain name"),
        ("recipient", "jo@reader..example", "a domain name"),
        ("recipient", "jo@reader.example\r\nRCPT TO:<eve@evil.example>", "no quotes or blanks"),
        ("recipient", "jo\r\n@reader.example", "no quotes or blanks"),
        ("recipient", "jo doe@reader.example", "no quotes or blanks"),
        ("recipient", "jo>@reader.example", "no quotes or blanks"),
        ("recipient", "j" * 65 + "@reader.example", "at most 64 bytes"),
        ("recipient", "jo@straße.example", "more than one reading"),
        ("sender", "news@-app.example", "a domain name"),
        ("subject", "hello\nBcc: eve@evil.example", "must be one line"),
        ("sender_name", "Shop\r\nBcc: eve@evil.example", "must be one line"),
        ("body", "a\0b", "control characters"),
        ("headers", {"Bcc": "eve@evil.example"}, "don't give it in headers"),
        ("headers", {"X-A\r\nBcc": "x"}, "letters, digits and hyphens"),
        ("headers", {"X-A": "x\r\nBcc: eve@evil.example"}, "must be one line|match pattern"),
    ],
)
def test_a_mail_that_would_smuggle_or_break_something_is_not_made(field: str, value: object, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Mail.model_validate({**LETTER.model_dump(), field: value})


@pytest.mark.parametrize("subject", ["a\N{NO-BREAK SPACE}b", "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}", ""])
def test_a_subject_in_any_writing_is_taken(subject: str) -> None:
    read = email.message_from_bytes(
        message_bytes(LETTER.model_copy(update={"subject": subject}), KEY, FIRST_AT), policy=email.policy.SMTP
    )
    assert read["Subject"] == subject


@pytest.mark.parametrize(
    "text", ["=?utf-8?q?Your=20password?= commented", "=?utf-8?b?WW91ciBiYW5r?=", '=?utf-8?q?Bank?= "x" <b@c>']
)
def test_a_text_that_looks_like_an_encoded_word_is_read_as_it_was_written(text: str) -> None:
    mail = LETTER.model_copy(update={"subject": text, "sender_name": text})
    read = email.message_from_bytes(message_bytes(mail, KEY, FIRST_AT), policy=email.policy.SMTP)
    assert read["Subject"] == text
    [sender] = read["From"].addresses
    assert (sender.display_name, sender.addr_spec) == (text, LETTER.sender)
