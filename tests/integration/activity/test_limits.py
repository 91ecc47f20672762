"""A `RateLimit`: all workers together keep to one rate, an operator changes it, and what waits too long is never
called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.service import RPCError

from perdure._services.queues import queues
from perdure.contracts import EffectStatus
from perdure.errors import InvalidSetting
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.acceptance.bookings import time_enough
from tests.apps.contracts import Booking
from tests.apps.limited import ACCOUNT, app
from tests.command import nobody, perdure
from tests.world import World

APP = ("--app", "tests.apps.limited:app")
ACCEPTED_UNSAID = {"accept": True, "close": True}


@pytest.fixture
async def limited(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """A world for the app with a limit."""
    async with World(postgres, temporal, database, tmp_path).made(app) as made:
        yield made


async def test_two_workers_together_keep_to_the_rate(limited: World) -> None:
    """Temporal hands out as many as for one second at once, and from then on no more than the rate."""
    names = [str(number) for number in range(30)]
    await shown(limited, "account", "0", "--by", "ann")
    async with limited.worker(app), limited.worker(app):
        for name in names:
            await limited.client.start("limited", name, Booking())
        for name in names:
            await limited.until(partial(in_line, limited, name), f"{name} waits for its turn")
        begun = asyncio.get_running_loop().time()
        await shown(limited, "account", "--as-declared", "--by", "ann")
        for name in names:
            assert await limited.ended("limited", name) == "done"
    times = [each["at"] for each in limited.counterparty.requests]
    assert len(times) == len(names)
    assert max(times) - begun > 0.9 * (len(names) - ACCOUNT.per_second) / ACCOUNT.per_second


async def test_an_operator_stops_slows_and_frees_a_limit_while_workers_run(limited: World) -> None:
    stopped = await shown(limited, "account", "0", "--by", "ann", "--note", "they are down")
    assert (stopped["per_second"], stopped["declared"], stopped["set_by"]) == (0, 10, "ann")
    assert stopped["note"] == "they are down"
    async with limited.worker(app):
        await limited.client.start("limited", "a", Booking())
        queue = ACCOUNT.task_queue(limited.config.queue)
        assert await limited.until(lambda: in_line(limited, "a"), "it waits for its turn") == [queue]
        assert (queue, "activity") in queues(app, limited.config)
        # The others do not wait for it.
        await limited.client.start("unlimited", "b", Booking())
        assert await limited.ended("unlimited", "b") == "done"
        assert limited.counterparty.seen("do", "limited/a/") == 0
        freed = await shown(limited, "account", "--as-declared", "--by", "ann")
        assert (freed["per_second"], freed["set_by"]) == (10, None)
        assert await limited.ended("limited", "a") == "done"
    assert "the code" in (await perdure(limited, "limit", *APP)).stdout


async def test_a_rate_is_shown_with_the_digits_in_which_it_was_set(limited: World) -> None:
    for rate in (0.1, 1e-6, 123.4567, 0.0):
        row = await shown(limited, "account", str(rate), "--by", "ann")
        assert (row["per_second"], row["set_to"], row["set_by"]) == (rate, rate, "ann")
    for refused in ("1e-50", "1e39", "nan", "16777217"):
        end = await perdure(limited, "limit", "account", refused, "--by", "ann", *APP)
        assert isinstance(end.exception, InvalidSetting), refused
    assert (await shown(limited))["per_second"] == 0


async def test_a_rate_to_which_temporal_does_not_keep_is_reported(limited: World) -> None:
    end = await perdure(limited, "limit", "account", "200000", "--by", "ann", *APP)
    assert end.exit_code == 1
    assert "perdure: 200000 a second is not in force, 1000 is: Temporal allows no more for a task queue" in end.stderr
    row = await shown(limited)
    assert (row["per_second"], row["set_to"], row["set_by"]) == (1000, 200000, "ann")
    async with limited.worker(app):
        freed = await shown(limited, "account", "--as-declared", "--by", "ann")
    assert (freed["per_second"], freed["set_to"], freed["set_by"]) == (10, None, None)


BOUND = """
    update perdure.database d set mark = 'm', scope = $1, namespace = 'default',
        system_identifier = i.system_identifier, database_oid = i.database_oid from perdure.incarnation() i"""


async def test_no_rate_is_changed_for_a_scope_that_is_not_the_databases_own(limited: World) -> None:
    await limited.db.execute(BOUND, limited.scope)
    end = await perdure(limited, "limit", "account", "0", "--by", "ann", *APP, PERDURE_SCOPE="shop")
    assert "and here is PERDURE_SCOPE='shop'" in str(end.exception)
    assert (await shown(limited))["set_by"] is None
    # To stop the effects, nobody has to wait for PostgreSQL.
    nowhere = f"postgresql://{nobody()}/shop"
    end = await perdure(limited, "limit", "account", "0", "--by", "ann", *APP, PERDURE_DATABASE_URL=nowhere)
    assert "whether this scope is the database's own is not known: no PostgreSQL answers at" in end.stderr
    assert (await shown(limited))["per_second"] == 0


async def test_a_rate_of_a_task_queue_that_no_worker_polls_is_stored_and_reported(limited: World) -> None:
    async with limited.worker(app):

        async def polled() -> bool:
            return bool((await shown(limited))["pollers"])

        await limited.until(polled, "the worker polls the queue of the limit")
        stop = ("limit", "account", "0", "--by", "ann", *APP)
        end = await perdure(limited, *stop, PERDURE_TASK_QUEUE="orders")
        assert end.exit_code == 1
        assert f"no worker has polled orders:{limited.scope}.account" in end.stderr
        assert (await shown(limited))["per_second"] == 10
        assert (await perdure(limited, *stop)).exit_code == 0


async def test_an_attempt_that_expires_in_the_queue_is_never_called(limited: World) -> None:
    await shown(limited, "account", "0", "--by", "ann")
    async with limited.worker(app):
        await limited.client.start("limited", "a", Booking(seconds=1))
        assert await limited.ended("limited", "a") == "expired"
    assert not limited.counterparty.requests
    assert [each.attempts for each in (await limited.client.status("limited", "a")).effects] == [0]


async def test_a_cancel_takes_back_what_waits_for_its_turn(limited: World) -> None:
    await shown(limited, "account", "0", "--by", "ann")
    async with limited.worker(app):
        await limited.client.start("limited", "a", Booking())
        await limited.until(lambda: in_line(limited, "a"), "it waits for its turn")
        await limited.client.cancel("limited", "a", by="ann")
        assert await limited.ended("limited", "a") == "cancelled"
    assert not limited.counterparty.requests
    assert [each.attempts for each in (await limited.client.status("limited", "a")).effects] == [0]


async def test_a_cancel_lets_a_call_that_has_its_turn_end(limited: World) -> None:
    limited.counterparty.before_replying.shut()
    async with limited.worker(app):
        await limited.client.start("limited", "a", Booking())
        await limited.counterparty.saw("do")
        await limited.client.cancel("limited", "a", by="ann")
        await limited.until(lambda: asked_to_end(limited, "a"), "it is asked to end")
        limited.counterparty.before_replying.open()
        assert await limited.ended("limited", "a") == "done"
    assert limited.counterparty.accepted == {"limited/a/do-limited": 1}


async def test_workers_of_both_queues_stop_within_one_grace_time(
    limited: World, caplog: pytest.LogCaptureFixture
) -> None:
    grace = 1.5
    limited.counterparty.before_replying.shut()
    caplog.set_level("INFO", "perdure.effects")
    async with limited.worker(app, graceful_shutdown_timeout=grace):
        for kind in ("limited", "unlimited"):
            await limited.client.start(kind, "a", Booking())
        await limited.counterparty.saw("do", count=2)
    ended = [each.created for each in caplog.records if each.message.startswith("attempt ended")]
    assert len(ended) == 2
    assert max(ended) - min(ended) < grace, "one began its time when the other had ended"


async def test_a_doubt_that_expires_without_an_answer_can_be_settled_later(limited: World) -> None:
    """It parks nobody; its doubt stays on record, until somebody who learns more says so."""
    async with limited.worker(app):
        enough = await time_enough(limited, "limited")
        limited.counterparty.replies = [ACCEPTED_UNSAID]
        limited.counterparty.mute = True
        await limited.client.start("limited", "a", Booking(seconds=1 + enough))  # its look-up is half a second later
        assert await limited.ended("limited", "a") == "expired"
        await limited.client.resolve(
            "limited", "a", EffectStatus.DONE, receipt={"number": 1}, by="webhook", note="said late"
        )
    assert limited.counterparty.seen("ask") >= 2
    rows = await limited.db.fetch("select attention from perdure.transition where lifecycle = 'limited'")
    assert [row["attention"] for row in rows] == [None] * len(rows)
    [effect] = (await limited.client.status("limited", "a")).effects
    assert effect.status is EffectStatus.DONE


async def in_line(world: World, entity_id: str) -> list[str]:
    """Task queues in which it has something."""
    try:
        seen = await world.handle("limited", entity_id).describe()
    except RPCError:
        return []
    return [each.activity_options.task_queue.name for each in seen.raw_description.pending_activities]


async def asked_to_end(world: World, entity_id: str) -> bool:
    """Whether the worker that makes the call was asked to cancel it."""
    seen = await world.handle("limited", entity_id).describe()
    states = [each.state for each in seen.raw_description.pending_activities]
    return PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED in states


async def shown(world: World, *arguments: str) -> dict[str, Any]:
    """What `perdure limit` says."""
    end = await perdure(world, "limit", *arguments, "--json", *APP)
    [line] = end.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert end.exit_code == (1 if "--by" in arguments and not found["pollers"] else 0), end.output
    return found
