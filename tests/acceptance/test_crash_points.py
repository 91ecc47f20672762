"""Every crash point of our own lifecycles: whatever dies or breaks at whatever place, it happens once and is shown."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.comments.contracts import Comment
from infra.mail.server import MailServer, count_by_message_id
from perdure._store.schema import Connection
from perdure.contracts.keys import Key
from perdure.errors import DeclarationError
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.testing.crashing import CrashPointsFailed, Proof, Servers, Way
from tests.apps import forgetful, straight
from tests.apps.bookings import Escalate, LookupBooking, LookupInline
from tests.apps.contracts import Booking
from tests.apps.listening import Bell, Told
from tests.counterparty import Counterparty
from tests.deadline import DEADLINE
from tests.integration.crypto.fixtures import FIRST
from tests.mail_secret import token_of
from workflows.comments.comment_notification import CommentNotification

PATIENCE = 2 * DEADLINE
"""Seconds for a case, of which eight run at once."""


@pytest.fixture(scope="session")
def perdure_servers(postgres: PostgresServer, temporal: TemporalServer) -> Servers:
    return Servers(postgres.dsn("perdure_template"), temporal.address)


@pytest.fixture
async def counterparty() -> AsyncIterator[Counterparty]:
    async with Counterparty().serving() as made:
        yield made


async def prove(crash_points: Callable[..., Any], lifecycle: Any, other_side: Counterparty, **how: Any) -> Proof:
    """A booking's proof; its row is committed with its start."""
    how.setdefault("app", "tests.apps.bodies:app")

    async def with_its_row(connection: Connection, entity_id: str) -> None:
        await connection.execute("insert into booking (id) values ($1)", entity_id)

    proof: Proof = await crash_points(
        lifecycle,
        Booking(),
        happened=other_side.accepted.__getitem__,
        other_side=("COUNTERPARTY_PORT", other_side.port),
        commit=with_its_row,
        receipt=lambda key: {"number": 1},
        patience=PATIENCE,
        **how,
    )
    print(proof.summary())
    return proof


@pytest.mark.parametrize("lifecycle", [LookupBooking, LookupInline])
async def test_whatever_dies_a_booking_is_done_once(
    lifecycle: Any, crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    proof = await prove(crash_points, lifecycle, counterparty)

    assert set(proof.undisturbed.counts.values()) == {1}
    effect = lifecycle.effects[0].name
    for border in ("before", "after"):
        assert f"{border} the commit of mirror: doing, fence: begin {effect}" in proof.places
        assert f"{border} the call of {effect}" in proof.places
        assert f"{border} the commit of fence: outcome {effect}" in proof.places
        assert f"{border} the commit of mirror: done" in proof.places
        assert f"{border} the delivery of a start" in proof.places
    assert "after the commit of the outbox" in proof.places
    assert f"before the report of {effect}" in proof.places
    assert "before the report of mirror: done" in proof.places
    assert [place for place in proof.places if "task that orders" in place] == [
        f"after the task that orders {effect}",
        "after the task that orders perdure.write",
        "after the task that orders its end",
    ]
    assert len(proof.cases) == 2 * len(proof.places)
    assert all(case.hit for case in proof.cases)


async def test_a_lifecycle_whose_workers_encrypt_is_done_once(
    crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    place = f"after the commit of fence: outcome {LookupBooking.effects[0].name}"
    proof = await prove(
        crash_points, LookupBooking, counterparty, environment={"PERDURE_KEYS": FIRST}, only=lambda name: name == place
    )
    assert [(each.place, each.hit) for each in proof.cases] == [(place, True)] * 2


async def test_whatever_dies_what_is_committed_with_the_outcome_is_so_once(
    crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    """Until the call it goes the way of any booking, which the proof above has been."""
    proof = await prove(
        crash_points,
        straight.StraightInline,
        counterparty,
        app="tests.apps.straight:app",
        only=lambda place: not any(part in place for part in ("delivery", "outbox", "start", "begin")),
    )
    places = {case.place for case in proof.cases}
    assert {f"{border} the call of do-lookup-inline" for border in ("before", "after")} <= places
    committed = "the commit of mirror: done, fence: outcome do-lookup-inline"
    assert {f"{border} {committed}" for border in ("before", "after")} <= places
    assert "after the task that orders its end" in places


async def test_whatever_dies_messages_are_heard_once_and_in_their_order(
    crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    """The app says three numbers with its start; the lifecycle ends well only if it hears just those, in order."""

    async def say(connection: Connection, entity_id: str) -> None:
        for number in (7, 1, 4):
            said = "select perdure.signal('bell', $1, 'add', $2::jsonb, $3)"
            await connection.execute(said, entity_id, str(number), f"m{number}")

    proof = await crash_points(
        Bell,
        Told(numbers=[7, 1, 4]),
        app="tests.apps.listening:app",
        patience=PATIENCE,
        happened=counterparty.accepted.__getitem__,
        other_side=("COUNTERPARTY_PORT", counterparty.port),
        commit=say,
        only=lambda place: any(part in place for part in ("outbox", "message", "delivery")),
    )
    print(proof.summary())

    assert proof.undisturbed.final == "rung"
    assert [place for place in proof.places if "outbox" in place or "message" in place or "delivery" in place] == [
        "after the messages got their places",
        "before the commit of the outbox",
        "after the commit of the outbox",
        "before the delivery of a start",
        "before the delivery of a message",
        "before the delivery of a message (2)",
        "before the delivery of a message (3)",
        "after the delivery of a start",
        "after the delivery of a message",
        "after the delivery of a message (2)",
        "after the delivery of a message (3)",
        "before the commit of the outbox (2)",
        "after the commit of the outbox (2)",
    ]


async def test_whatever_dies_a_comment_is_notified_by_one_mail(
    crash_points: Callable[..., Any], tmp_path: Path
) -> None:
    async def with_its_comment(connection: Connection, entity_id: str) -> None:
        await connection.execute("insert into comment (id) values ($1)", int(entity_id))

    async with MailServer(tmp_path / "maildir", tmp_path / "mail.log") as server:
        proof = await crash_points(
            CommentNotification,
            Comment(id=1, post_id=1, author="ann", body="hello", recipient="bob@example.org"),
            app="workers.comments.app:app",
            patience=PATIENCE,
            happened=lambda key: count_by_message_id(server.maildir)[f"<{token_of(Key(key))}@blog.example>"],
            other_side=("PERDURE_MAIL_PORT", server.port),
            commit=with_its_comment,
            environment={
                "PERDURE_MAIL_LOG": str(server.log),
                "PERDURE_MAIL_STARTTLS": "never",
                "PERDURE_MAIL_TIMEOUT": "8",
                "PERDURE_MAIL_VISIBILITY_DELAY": "1",
            },
        )
    print(proof.summary())

    assert proof.undisturbed.final == "sent"
    assert proof.undisturbed.counts == {"send-mail": 1}
    assert "after the call of send-mail" in proof.places


@pytest.mark.parametrize("lifecycle", [LookupBooking, LookupInline, Escalate])
async def test_whatever_dies_while_it_waits_or_looks_up_it_is_done_once(
    lifecycle: Any, crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    """The other side asks for a pause first, then accepts it and breaks off before it has replied."""

    def arrange(entity_id: str) -> None:
        counterparty.replies_to[entity_id] = [
            {"not_done": "busy", "retry_after": 0.5},
            {"accept": True, "close": True},
        ]

    waiting = ("during the wait", "look-up", "find-booking", "a timer", "an update", "resolve")
    proof = await prove(
        crash_points,
        lifecycle,
        counterparty,
        arrange=arrange,
        only=lambda place: any(part in place for part in waiting),
    )

    effect = lifecycle.effects[0].name
    places = {case.place for case in proof.cases}
    waits = {place for place in places if place.startswith(f"during the wait {effect} ")}  # with what came back so far
    assert [place for place in waits if place.endswith(": next step")] != []
    if lifecycle is Escalate:
        assert f"during the wait {effect}: parked" in places
    else:
        assert {f"{border} the look-up {lifecycle.effects[0].lookup.name}" for border in ("before", "after")} <= places


async def test_an_effect_that_happens_twice_is_found_and_told_with_place_history_and_rows(
    crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    """Its look-up never finds anything, so what was lost after the call is sent again."""
    with pytest.raises(CrashPointsFailed) as failed:
        await prove(
            crash_points,
            forgetful.Forgetful,
            counterparty,
            app="tests.apps.forgetful:app",
            only=lambda place: "after the call of" in place,
            ways=[Way.KILL],
        )

    told = str(failed.value)
    assert "forgetful, after the call of do-forgetful: the worker is killed" in told
    # more often where a stall lost attempts as well
    assert re.search(r"do-forgetful happened (?!1 )\d+ times; undisturbed it happens 1 times", told)
    assert "activity_task_scheduled do-forgetful" in told
    assert "perdure.effect: {" in told


async def test_a_worker_that_is_kept_from_its_start_in_place_of_the_killed_one_is_replaced(
    crash_points: Callable[..., Any], counterparty: Counterparty, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"  # the workers' logs are in the folder itself
    starts.mkdir()
    proof = await prove(
        crash_points,
        LookupBooking,
        counterparty,
        app="tests.apps.kept_from_start:app",
        only=lambda place: place == "before the call of do-lookup",
        ways=[Way.KILL],
        environment={"STARTS_IN": str(starts)},
    )

    assert [each.final for each in proof.cases] == ["done"]
    assert len(list(starts.iterdir())) == 4


_SLOW_AT_FIRST = """
    create sequence answers;
    alter function perdure.schema_version() rename to version_at_once;
    create function perdure.schema_version() returns jsonb language plpgsql security definer as $$
    begin
        if nextval('public.answers') = 1 then perform pg_sleep(60); end if;
        return perdure.version_at_once();
    end $$
"""


async def test_a_case_begins_although_postgresql_is_too_busy_to_answer_at_first(
    crash_points: Callable[..., Any],
    counterparty: Counterparty,
    database: str,
    postgres: PostgresServer,
    perdure_servers: Servers,
) -> None:
    connection = await asyncpg.connect(postgres.dsn(database))
    await connection.execute(_SLOW_AT_FIRST)
    await connection.close()
    servers = Servers(postgres.dsn(database), perdure_servers.temporal)

    proof = await prove(crash_points, LookupBooking, counterparty, servers=servers, only=lambda place: False)

    assert proof.undisturbed.final == "done"


async def test_an_app_that_does_not_run_the_lifecycle_is_refused_at_once(
    crash_points: Callable[..., Any], counterparty: Counterparty
) -> None:
    with pytest.raises(DeclarationError, match=r"tests\.apps\.bodies:app does not run Forgetful"):
        await prove(crash_points, forgetful.Forgetful, counterparty)
