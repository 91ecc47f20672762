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
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.acceptance.bookings import time_enough
from tests.apps.contracts import Booking
from tests.apps.limited import ACCOUNT, app
from tests.command import perdure
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
    assert end.exit_code == 0, end.output
    [line] = end.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found
