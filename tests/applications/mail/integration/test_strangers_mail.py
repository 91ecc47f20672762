"""A stranger's mail through the same Postfix never answers whether ours was sent: forged, in reply, or bounced."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psutil
import pytest

from activities.mail.contracts.mail import Accepted, Mail
from activities.mail.contracts.sendmail import Kind
from activities.mail.log_files import LogUnusable
from activities.mail.mail_log import find_in_mail_log
from activities.mail.mail_queue import QueueAnswer, QueueUnusable, ask_queue
from activities.mail.message_id import CLOCKS
from activities.mail.sendmail import find_sent_mail
from activities.mail.settings import mail_settings
from infra.needs import is_needed
from infra.postfix import DOMAIN, Postfix, why_no_postfix
from perdure import LookupContext
from perdure.contracts.keys import Entity, Key
from tests.applications.mail.mailings import TABLE, Workers, commit, letter, send
from tests.mail_secret import MAIL_SECRET, token_of
from tests.world import World

READER, NEWS, STRANGER = f"reader@{DOMAIN}", f"news@{DOMAIN}", f"stranger@{DOMAIN}"
TIMES = {"PERDURE_MAIL_TIMEOUT": "3", "PERDURE_MAIL_VISIBILITY_DELAY": "1"}
DIES = "sh -c 'cat >/dev/null; kill -9 $$' sendmail"
"""A `sendmail` that ends by a signal, and has sent nothing: nobody knows that."""


@pytest.fixture(scope="module")
def postfix() -> Iterator[Postfix]:
    if missing := why_no_postfix():
        pytest.fail(missing) if is_needed("postfix") else pytest.skip(missing)
    with Postfix(["news", "reader", "stranger", "lost"]) as server:
        yield server


@pytest.fixture
async def workers(world: World) -> AsyncIterator[Workers]:
    await world.db.execute(TABLE)
    await world.db.execute(f"alter table mailing alter id restart with {datetime.now(UTC).timestamp() * 1000:.0f}")
    async with Workers.of(world) as made:
        yield made


async def test_an_invoice_in_doubt_is_sent_though_a_stranger_has_sent_a_mail_that_looks_like_it(
    world: World, postfix: Postfix, workers: Workers
) -> None:
    """The stranger knows the name of the lifecycle, the id of the row, and the sources."""
    environment = {**postfix.environment, **TIMES}
    [number] = await commit(world, [letter(Kind.EXACTLY_ONCE, READER)])
    guessed = Key.of(Entity("mailing", str(number)), "sendmail").token
    forged = {"From": NEWS, "To": READER, "Message-ID": f"<{guessed}@{DOMAIN}>"}
    await asyncio.to_thread(send, postfix, NEWS, READER, forged)
    await world.until(lambda: f"<{guessed}@{DOMAIN}>" in postfix.handed_over()["reader"], "the stranger's mail")
    first = await workers.start(**{**environment, "PERDURE_MAIL_SENDMAIL": DIES})
    await world.until(partial(_in_doubt, world), "the mail in doubt")
    await workers.kill(first)
    before = postfix.handed_over()["reader"].total()
    await workers.start(**environment)
    assert await world.ended("mailing", number) == "processed"
    await world.until(postfix.is_empty, "an empty queue")
    assert postfix.handed_over()["reader"].total() == before + 1, "the invoice was never sent"


@pytest.fixture
def asking(postfix: Postfix) -> Iterator[Asking]:
    """Look-ups of a mail that was never sent."""
    with as_worker(postfix):
        yield Asking(Key.of(Entity("mailing", secrets.token_hex(8)), "sendmail"), datetime.now(UTC))


@dataclass(frozen=True)
class Asking:
    """A mail that was never sent, and what the look-ups find out about it.

    Attributes:
        key: of the effect.
        first_at: when its first attempt began.
    """

    key: Key
    first_at: datetime

    async def found(self, **other: Any) -> list[object]:
        """What each look-up answers: a receipt, None for a certain miss, or the kind of error that says neither."""
        mail = Mail(sender=NEWS, recipient=other.get("recipient", READER), subject="News", body="Hello\n")
        given: list[object] = []
        for look_up in (find_sent_mail, find_in_mail_log, ask_queue):
            try:
                answer = await look_up(mail, LookupContext(self.key, other.get("first_at", self.first_at)))
                given.append(answer.receipt if isinstance(answer, QueueAnswer) else answer)
            except (LogUnusable, QueueUnusable) as error:
                given.append(type(error))
        return given


@contextmanager
def as_worker(postfix: Postfix) -> Iterator[None]:
    """The settings of a worker of this Postfix, in this process."""
    before = dict(os.environ)
    os.environ.update(postfix.environment)
    mail_settings.cache_clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        mail_settings.cache_clear()


NEVER_SENT = [None, None, None]


async def test_our_own_mail_is_found_in_the_queue_and_in_the_log(
    world: World, postfix: Postfix, asking: Asking
) -> None:
    """Or the tests below would prove nothing."""
    postfix.stop()
    ours = {"From": NEWS, "To": READER, "Message-ID": f"<{token_of(asking.key)}@{DOMAIN}>"}
    await asyncio.to_thread(send, postfix, NEWS, READER, ours)
    waits = Accepted(queue_id="", delivery="queued")
    assert await asking.found() == [waits, None, waits]
    postfix.start()
    await handled(world, postfix, ours)
    by_queue, by_log, in_queue = await asking.found()
    assert isinstance(by_log, Accepted)
    assert (by_queue, by_log.delivery, in_queue) == (by_log, "sent", None)


@pytest.mark.parametrize("form", ["unkeyed", "In-Reply-To", "References", "Subject", "X-Message-ID", "folded", "body"])
@pytest.mark.parametrize("recipient", [READER, f"nobody@{DOMAIN}"])
async def test_no_mail_of_a_stranger_is_taken_for_ours(
    world: World, postfix: Postfix, asking: Asking, form: str, recipient: str
) -> None:
    """Whoever has had another copy of our mail knows its Message-ID, and replies to it; a bounce quotes it."""
    own = f"<{token_of(asking.key)}@{DOMAIN}>"
    headers = {"From": NEWS, "To": recipient, "Message-ID": f"<{secrets.token_hex(8)}@{DOMAIN}>"}
    match form:
        case "unkeyed":
            headers["Message-ID"] = f"<{asking.key.token}@{DOMAIN}>"
        case "folded":
            headers["X-Note"] = f"a\n Message-ID: {own}"
        case "body":
            pass
        case _:
            headers[form] = own
    postfix.stop()
    await asyncio.to_thread(send, postfix, NEWS, recipient, headers, f"> Message-ID: {own}\nMessage-ID: {own}\n")
    assert await asking.found() == NEVER_SENT
    postfix.start()
    await handled(world, postfix, headers)
    assert await asking.found() == NEVER_SENT


@pytest.mark.parametrize(
    ("sender", "recipient"),
    [(STRANGER, READER), (NEWS, STRANGER), ("", READER), (f"news@{DOMAIN}.example", READER)],
    ids=["another sender", "another recipient", "a bounce", "another domain"],
)
async def test_whoever_knows_our_message_id_and_sends_it_on_leaves_the_question_to_a_person(
    world: World, postfix: Postfix, asking: Asking, sender: str, recipient: str
) -> None:
    """Neither done nor a miss: where addresses are rewritten it may be ours after all."""
    headers = {"From": NEWS, "To": READER, "Message-ID": f"<{token_of(asking.key)}@{DOMAIN}>"}
    postfix.stop()
    await asyncio.to_thread(send, postfix, sender, recipient, headers)
    assert not [each for each in await asking.found() if isinstance(each, Accepted)]
    postfix.start()
    await handled(world, postfix, headers)
    assert await asking.found() == [LogUnusable, LogUnusable, None]


async def test_a_mail_from_long_before_the_first_attempt_leaves_the_question_to_a_person(
    world: World, postfix: Postfix, asking: Asking
) -> None:
    headers = {"From": NEWS, "To": READER, "Message-ID": f"<{token_of(asking.key)}@{DOMAIN}>"}
    later = datetime.now(UTC) + 2 * CLOCKS
    postfix.stop()
    await asyncio.to_thread(send, postfix, NEWS, READER, headers)
    assert await asking.found(first_at=later) == [LogUnusable, LogUnusable, QueueUnusable]
    postfix.start()
    await handled(world, postfix, headers)
    assert not [each for each in await asking.found(first_at=later) if isinstance(each, Accepted)]


async def test_a_mail_whose_message_id_the_log_has_lost_leaves_the_question_to_a_person(
    world: World, postfix: Postfix, asking: Asking
) -> None:
    """Postfix is stopped when it has picked the mail up, and before its own log daemon has written that."""
    headers = {"From": NEWS, "To": f"lost@{DOMAIN}", "Message-ID": f"<{token_of(asking.key)}@{DOMAIN}>"}
    [master] = [each for each in psutil.Process().children(recursive=True) if each.name() == "master"]
    behind = [each for each in master.children() if each.name() in ("postlogd", "qmgr")]
    for each in behind:
        each.suspend()
    await asyncio.to_thread(send, postfix, NEWS, f"lost@{DOMAIN}", headers)
    await world.until(lambda: not any((postfix.folder / "queue" / "maildrop").iterdir()), "its pick-up")
    stopping = asyncio.create_task(asyncio.to_thread(postfix.stop))
    await world.until(lambda: not master.is_running(), "the end of Postfix")
    for each in behind:
        each.resume()
    await stopping
    postfix.start()
    await world.until(lambda: postfix.handed_over()["lost"].total() == 1 and postfix.is_empty(), "its delivery")
    await world.until(lambda: f"to=<lost@{DOMAIN}>" in postfix.log.read_text(), "a log with its delivery")
    assert headers["Message-ID"] not in postfix.log.read_text()
    assert await asking.found(recipient=f"lost@{DOMAIN}") == [LogUnusable, LogUnusable, None]
    assert await asking.found() == NEVER_SENT


async def test_a_mail_that_was_sent_before_the_secret_was_changed_is_found(
    world: World, postfix: Postfix, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"From": NEWS, "To": READER, "Message-ID": f"<{token_of(asking.key)}@{DOMAIN}>"}
    await asyncio.to_thread(send, postfix, NEWS, READER, headers)
    await handled(world, postfix, headers)
    for secret, known in (("n" * 32 + " " + MAIL_SECRET, True), ("n" * 32, False)):
        monkeypatch.setenv("PERDURE_MAIL_SECRET", secret)
        mail_settings.cache_clear()
        found = await asking.found()
        assert [isinstance(each, Accepted) for each in found] == [known, known, False]


async def test_a_worker_without_a_secret_does_not_start(world: World, workers: Workers, postfix: Postfix) -> None:
    with pytest.raises(AssertionError, match="PERDURE_MAIL_SECRET is not set: make one by openssl"):
        await workers.start(**postfix.environment, PERDURE_MAIL_SECRET="")


async def handled(world: World, postfix: Postfix, headers: dict[str, str]) -> None:
    """Return when Postfix is done with a mail, and its log shows that."""
    await world.until(lambda: postfix.is_done_with(headers["Message-ID"]), "a log with the end of the mail")


async def _in_doubt(world: World) -> bool:
    return bool(await world.db.fetchval("select exists (select from perdure.effect where status = 'in_doubt')"))
