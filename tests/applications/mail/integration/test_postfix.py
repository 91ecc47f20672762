"""Mail piped to a real Postfix: what is exactly once is in its mailbox once, whatever is killed, stopped or full."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from activities.mail.contracts.mail import Accepted
from activities.mail.contracts.sendmail import Kind
from infra.needs import is_needed
from infra.postfix import DOMAIN, Postfix, why_no_postfix
from perdure.errors import AlreadyFinished, NotNow
from tests.applications.mail.mailings import TABLE, Workers, commit, letter, message_id, send
from tests.deadline import until
from tests.world import World

MAILS, KILLS = 200, 10
READERS = [f"reader-{number}" for number in range(MAILS)]
PAGE = Path(__file__).parents[4] / "activities" / "mail" / "README.md"
TIMES = {"PERDURE_MAIL_TIMEOUT": "3", "PERDURE_MAIL_VISIBILITY_DELAY": "1"}


@pytest.fixture(scope="module")
def postfix() -> Iterator[Postfix]:
    if missing := why_no_postfix():
        pytest.fail(missing) if is_needed("postfix") else pytest.skip(missing)
    with Postfix(["news", "twice", *READERS]) as server:
        yield server


@pytest.fixture
async def workers(world: World, postfix: Postfix) -> AsyncIterator[Workers]:
    await world.db.execute(TABLE)
    # Each test has a database, all of them one log: their mails must not have one Message-ID.
    await world.db.execute(f"alter table mailing alter id restart with {secrets.randbelow(10**12)}")
    async with Workers.of(world) as made:
        yield made


async def test_ten_killed_workers_a_stopped_postfix_and_a_rotated_log_leave_each_mail_once(
    world: World, postfix: Postfix, workers: Workers
) -> None:
    environment = {**postfix.environment, **TIMES, "PERDURE_MAX_CONCURRENT_EFFECTS": "8"}
    kinds = [Kind.EXACTLY_ONCE, Kind.AT_LEAST_ONCE]
    rows = await commit(world, (letter(kinds[n % 2], f"{reader}@{DOMAIN}") for n, reader in enumerate(READERS)))
    events = {3: postfix.stop, 6: postfix.start, 8: postfix.rotate_log}
    loop, happening = asyncio.get_running_loop(), []
    with ThreadPoolExecutor(1) as one_after_another:
        for number in range(1, KILLS + 1):
            worker = await workers.start(**environment)
            await world.until(partial(_attempted, world, number * 18), f"mails for kill {number}")
            await workers.kill(worker)
            if number in events:
                happening.append(loop.run_in_executor(one_after_another, events[number]))
        await workers.start(**environment)
        await asyncio.gather(*happening)
    await world.until(lambda: _all_processed(world), "each mail processed")
    await world.until(postfix.is_empty, "an empty queue")

    handed_over = postfix.handed_over()
    copies = {
        kind: [handed_over[each.recipient.partition("@")[0]] for number, each in rows.items() if each.kind is kind]
        for kind in Kind
    }
    expected = {
        number: Counter({message_id(number): 1}) for number, each in rows.items() if each.kind is Kind.EXACTLY_ONCE
    }
    assert dict(zip(expected, copies[Kind.EXACTLY_ONCE], strict=True)) == expected
    assert all(len(box) == 1 for box in copies[Kind.AT_LEAST_ONCE])
    doubts = await world.db.fetch(
        "select m.kind, count(*) filter (where settled_by = 'look-up') found, "
        "count(*) filter (where attempts > 1) again "
        "from perdure.effect e join mailing m on m.id::text = e.id group by 1"
    )
    told = {row["kind"]: (row["found"], row["again"]) for row in doubts}
    more = sum(box.total() - 1 for box in copies[Kind.AT_LEAST_ONCE])
    print(f"(found by the look-up, sent again) by kind: {told}; twice though once was enough: {more}")
    assert told["exactly_once"][0] > 0
    assert told["at_least_once"][1] > 0
    assert told["at_least_once"][0] == 0


async def test_a_mail_that_postfix_itself_delivers_twice_was_handed_over_once(postfix: Postfix) -> None:
    """A mail that is still in `maildrop` when it is picked up: Postfix was stopped before it could remove it there."""
    postfix.stop()
    maildrop, inbox = postfix.folder / "queue" / "maildrop", postfix.folder / "mail" / "twice" / "new"
    for name in ("picked-up", "twice", "twice"):
        for earlier in maildrop.iterdir():
            at = earlier.stat().st_mtime - 60
            os.utime(earlier, (at, at))
        header = {"Message-ID": f"<{name}@{DOMAIN}>"}
        await asyncio.to_thread(send, postfix, f"news@{DOMAIN}", f"twice@{DOMAIN}", header)
    [picked_up] = [each for each in maildrop.iterdir() if b"picked-up" in each.read_bytes()]
    still_there = shutil.copy2(picked_up, f"{picked_up}0")
    shutil.chown(still_there, picked_up.owner(), picked_up.group())
    postfix.start()
    await until(lambda: inbox.exists() and len([*inbox.iterdir()]) == 4, "four deliveries")
    assert postfix.handed_over()["twice"] == {f"<picked-up@{DOMAIN}>": 1, f"<twice@{DOMAIN}>": 2}


async def test_a_mail_that_was_taken_while_postfix_is_stopped_is_found_in_its_queue_and_not_sent_again(
    world: World, postfix: Postfix, workers: Workers
) -> None:
    """It is in no log then. The program hangs once it has handed it over, so that nobody knows."""
    postfix.stop()
    hangs = "sh -c '/usr/sbin/sendmail -i -t \"$@\"; exec sleep 100' sendmail"
    rows = await commit(world, [letter(Kind.EXACTLY_ONCE, f"reader-0@{DOMAIN}")])
    await workers.start(**{**postfix.environment, **TIMES, "PERDURE_MAIL_SENDMAIL": hangs})
    [number] = rows
    assert await world.ended("mailing", number) == "processed"
    assert await _receipt(world, number) == Accepted(queue_id="", delivery="queued")
    postfix.start()
    await world.until(lambda: message_id(number) in postfix.handed_over()["reader-0"], "its delivery")
    assert postfix.handed_over()["reader-0"][message_id(number)] == 1


async def test_a_recipient_without_a_mailbox_is_processed_and_its_sender_gets_the_bounce(
    world: World, postfix: Postfix, workers: Workers
) -> None:
    """`sendmail` has taken the mail when Postfix looks for the mailbox. The row is committed as the manual says."""
    [statements] = re.findall(r"```sql\n(.*?)```", await asyncio.to_thread(PAGE.read_text), re.DOTALL)
    statements = statements.replace("billing@shop.example", f"news@{DOMAIN}").replace("reader.example", DOMAIN)
    await world.db.execute(statements)
    number = await world.db.fetchval("select id from mailing")
    before = postfix.handed_over()["news"].total()
    await workers.start(**postfix.environment)
    assert await world.ended("mailing", number) == "processed"
    await world.until(lambda: postfix.handed_over()["news"].total() == before + 1, "the bounce")


async def test_a_forbidden_sender_and_a_full_queue_are_tried_again_until_the_queue_accepts(
    world: World, postfix: Postfix, workers: Workers
) -> None:
    body = "x" * 9_000
    rows = await commit(world, (letter(kind, f"reader-1@{DOMAIN}", body) for kind in Kind))
    environment = {**postfix.environment, **TIMES}
    first = await workers.start(**{**environment, "PERDURE_MAIL_SENDMAIL": postfix.without_room()})
    await world.until(partial(_turned_away, world, "queue file write error|message file too big"), "a full queue")
    await workers.kill(first)
    postfix.set("authorized_submit_users", "postfix")
    await workers.start(**environment)
    await world.until(partial(_turned_away, world, "not allowed to submit mail"), "a user who may not send")
    postfix.set("authorized_submit_users", "static:anyone")
    for number in rows:
        with suppress(NotNow, AlreadyFinished):  # an attempt is under way, or was the last one
            await world.client.retry("mailing", number, by="ann", note="they may send again")
        assert await world.ended("mailing", number) == "processed"
    copies = {message_id(number): 1 for number in rows}
    await world.until(postfix.is_empty, "an empty queue")
    assert {each: postfix.handed_over()["reader-1"][each] for each in copies} == copies


async def _turned_away(world: World, why: str) -> bool:
    """Whether the last attempt of every mail was turned away for that reason, and none of them has failed."""
    rows = await world.db.fetch(
        "select m.state, e.status, e.why from mailing m left join perdure.effect e on e.id = m.id::text"
    )
    assert {row["state"] for row in rows} <= {"queued", "processing"}
    return all(row["status"] == "not_done" and re.search(why, row["why"]) for row in rows)


async def _receipt(world: World, number: int) -> Accepted:
    found = await world.db.fetchval("select receipt from perdure.effect where id = $1", str(number))
    return Accepted.model_validate_json(found)


async def _attempted(world: World, wanted: int) -> bool:
    return bool(await world.db.fetchval("select sum(attempts) >= $1 from perdure.effect", wanted))


async def _all_processed(world: World) -> bool:
    return not await world.db.fetchval("select exists (select from mailing where state <> 'processed')")
