"""The look-up of `sendmail` finds a mail in Postfix's queue and log, with lines of a real Postfix."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities.mail.contracts.mail import Accepted
from activities.mail.log_files import LogUnusable
from activities.mail.mail_log import find_in_mail_log, search
from activities.mail.mail_queue import QueueUnusable, ask_queue
from activities.mail.message_id import CLOCKS, Sought
from activities.mail.sendmail import find_sent_mail
from perdure import LookupContext
from tests.applications.mail.fixtures import LETTER, attempt, settings
from tests.mail_secret import token_of

PIPED = Path(__file__).parents[1] / "logs" / "postfix_piped.txt"
BEGUN = datetime(2026, 11, 21, 16, 5, 26, tzinfo=UTC)
HERE = LETTER.recipient
STARTED = "Nov 21 16:05:20 mx postfix/master[1]: daemon started\n"


def token(name: str) -> str:
    """The left side of the Message-ID of a mail of the recorded log."""
    return hashlib.sha256(f"piped-{name}".encode()).hexdigest()[:40]


def sought(name: str, since: datetime) -> Sought:
    """It, from and to whomever."""
    return Sought((token(name),), since)


@pytest.mark.parametrize(
    ("mail", "delivery"),
    [
        ("ok", "sent"),
        ("rej", "bounced"),  # `cleanup` rejects its header: there is no client any more, so its sender is told
        ("disc", "discarded"),
        ("hold", "held"),
        ("unk", "bounced"),  # no such mailbox
        ("stopped", "sent"),  # handed over while Postfix was stopped
    ],
)
def test_a_mail_that_was_piped_is_found_whatever_became_of_it(tmp_path: Path, mail: str, delivery: str) -> None:
    log = log_of(tmp_path, PIPED.read_text())
    found = search(log, sought(mail, BEGUN))
    assert found is not None
    assert (found.delivery, len(found.queue_id)) == (delivery, 16)


def test_a_mail_that_was_picked_up_is_accepted_before_more_is_known_of_it(tmp_path: Path) -> None:
    """Postfix was killed right after these two lines: when it is back, it picks the mail up once more."""
    lines = PIPED.read_text().splitlines(keepends=True)
    assert search(log_of(tmp_path, "".join(lines[:2])), sought("ok", BEGUN)) == Accepted(
        queue_id="4jWxr66tdSz1Vdnd", delivery="queued"
    )


def test_a_mail_that_was_picked_up_and_rejected_is_not_sent_again_before_its_bounce_is_known(tmp_path: Path) -> None:
    whole = PIPED.read_text()
    until_reject = whole[: whole.index("\n", whole.index(": reject: ")) + 1]
    assert search(log_of(tmp_path, until_reject), sought("rej", BEGUN)) is not None


def log_of(folder: Path, text: str) -> Path:
    log = folder / "mail.log"
    log.write_text(text)
    at = (BEGUN + timedelta(minutes=1)).timestamp()
    os.utime(log, (at, at))
    return log


@contextmanager
def queue(
    folder: Path,
    *entries: dict[str, str],
    status: int = 0,
    log: str = STARTED,
    readable: bool = True,
    meanwhile: str = "",
) -> Iterator[None]:
    """Postfix's programs, that tell of such a queue, and a log beside it.

    Args:
        entries: for each mail `id`, `queue`, `to` and the `key` of its Message-ID.
        readable: whether the caller may read what is in the queue.
        meanwhile: shell commands that are run once the list is made.
    """
    listed = ""
    for each in entries:
        arrival_time = int(BEGUN.timestamp())
        at = {"queue_name": each["queue"], "queue_id": each["id"], "arrival_time": arrival_time, "message_size": 1}
        listed += json.dumps({**at, "sender": LETTER.sender, "recipients": [{"address": each["to"]}]}) + "\n"
        (folder / f"header-{each['id']}").write_text(f"Message-ID: <{each['key']}@app.example>\n")
    said = listed or "postqueue: warning: Mail system is down\n"
    program(folder, "postqueue", f"cat <<'X'\n{said}X\n{meanwhile}\nexit {status}")
    program(folder, "postcat", f'test "$1 $2" = "-c /etc/p" && cat "{folder}/header-$4"' if readable else "exit 1")
    log_of(folder, log)
    with settings(postqueue=f"'{folder}/postqueue' -c /etc/p -j", log=folder / "mail.log", log_zone="UTC"):
        yield


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def piped_as(question: LookupContext) -> str:
    """The recorded log, as if its first mail were the one that is asked for."""
    text = PIPED.read_text().replace(token("ok"), token_of(question.key))
    return text.replace("n@inbox.example", LETTER.sender).replace("joe1@inbox.example", LETTER.recipient)


def named(queue_id: str, token: str) -> str:
    """A line with the Message-ID of a mail, after the first attempt."""
    return f"Nov 21 16:05:27 mx postfix/cleanup[8]: {queue_id}: message-id=<{token}@app.example>\n"


def asked() -> LookupContext:
    return LookupContext(attempt().key, BEGUN)


@pytest.mark.parametrize(
    ("folder", "name", "delivery"),
    [
        ("maildrop", "", "queued"),  # picked up, it gets another name
        ("incoming", "4Q", "queued"),
        ("active", "4Q", "queued"),
        ("deferred", "4Q", "deferred"),
        ("hold", "4Q", "held"),
    ],
)
async def test_a_mail_in_the_queue_is_found(tmp_path: Path, folder: str, name: str, delivery: str) -> None:
    question = asked()
    entry = {"queue": folder, "id": "4Q", "to": HERE.upper(), "key": token_of(question.key)}
    mail = LETTER.model_copy(update={"recipient": HERE.title()})
    with queue(tmp_path, {"queue": folder, "id": "4P", "to": HERE, "key": "other"}, entry):
        assert (await ask_queue(mail, question)).receipt == Accepted(queue_id=name, delivery=delivery)
        assert await find_sent_mail(mail, question) == Accepted(queue_id=name, delivery=delivery)


async def test_mails_of_others_in_the_queue_are_not_read_and_are_a_miss(tmp_path: Path) -> None:
    question = asked()
    other = {"queue": "maildrop", "id": "4P", "to": "someone@reader.example", "key": token_of(question.key)}
    with queue(tmp_path, other, {"queue": "active", "id": "4Q", "to": HERE, "key": "another"}):
        assert await find_sent_mail(LETTER, question) is None


@pytest.mark.parametrize("folder", ["maildrop", "incoming", "active", "deferred", "hold"])
async def test_a_mail_to_the_same_recipient_that_may_not_be_read_leaves_the_question_open(
    tmp_path: Path, folder: str
) -> None:
    entry = {"queue": folder, "id": "4Q4Q4Q", "to": HERE, "key": "any"}
    with queue(tmp_path, entry, readable=False), pytest.raises(LogUnusable, match="4Q4Q4Q is a mail to the same recip"):
        await find_sent_mail(LETTER, asked())


async def test_a_mail_to_the_same_recipient_that_may_not_be_read_is_another_one_if_the_log_shows_that(
    tmp_path: Path,
) -> None:
    entry = {"queue": "deferred", "id": "4Q4Q4Q", "to": HERE, "key": "any"}
    with queue(tmp_path, entry, log=STARTED + named("4Q4Q4Q", "any"), readable=False):
        assert await find_sent_mail(LETTER, asked()) is None


async def test_a_mail_to_the_same_recipient_from_long_before_the_first_attempt_is_another_one(tmp_path: Path) -> None:
    entry = {"queue": "deferred", "id": "4Q4Q4Q", "to": HERE, "key": "any"}
    later = LookupContext(attempt().key, BEGUN + CLOCKS + timedelta(seconds=1))
    with queue(tmp_path, entry, log=STARTED + named("4P4P4P", "other"), readable=False):
        assert await find_sent_mail(LETTER, later) is None


async def test_a_queue_that_can_not_be_listed_gives_no_miss(tmp_path: Path) -> None:
    with queue(tmp_path, status=69), pytest.raises(QueueUnusable, match=r"can't list the queue: .*is down"):
        await find_sent_mail(LETTER, asked())


async def test_a_mail_in_the_log_is_found_also_when_the_queue_can_not_be_listed(tmp_path: Path) -> None:
    question = asked()
    log = piped_as(question)
    with queue(tmp_path, status=69, log=log):
        found = await find_sent_mail(LETTER, question)
    assert found is not None
    assert found.delivery == "sent"


async def test_a_mail_that_leaves_the_queue_while_it_is_listed_is_found_in_the_log(tmp_path: Path) -> None:
    question = asked()
    (tmp_path / "picked-up").write_text(piped_as(question))
    with queue(tmp_path, meanwhile=f"cat '{tmp_path}/picked-up' >> '{tmp_path}/mail.log'"):
        found = await find_sent_mail(LETTER, question)
    assert found is not None
    assert found.delivery == "sent"


async def test_no_postqueue_gives_no_miss_and_names_the_setting(tmp_path: Path) -> None:
    with (
        queue(tmp_path),
        settings(postqueue=tmp_path / "gone", log=tmp_path / "mail.log", log_zone="UTC"),
        pytest.raises(QueueUnusable, match="PERDURE_MAIL_POSTQUEUE"),
    ):
        await find_sent_mail(LETTER, asked())


async def test_a_mail_sent_by_smtp_of_which_the_log_has_lost_the_end_is_found_in_the_queue(tmp_path: Path) -> None:
    question = asked()
    half = named("4Q4Q4Q", token_of(question.key))
    with queue(tmp_path, {"queue": "deferred", "id": "4Q4Q4Q", "to": HERE, "key": token_of(question.key)}, log=half):
        assert await find_in_mail_log(LETTER, question) == Accepted(queue_id="4Q4Q4Q", delivery="deferred")
    with queue(tmp_path, log=half), pytest.raises(LogUnusable, match="does not show yet"):
        await find_in_mail_log(LETTER, question)
    with queue(tmp_path, log=half, status=69), pytest.raises(LogUnusable, match="does not show yet"):
        await find_in_mail_log(LETTER, question)
