"""The workflow decides, the mirror shows: what somebody writes into the mirror changes no lifecycle's way."""

from __future__ import annotations

from datetime import timedelta

from perdure.contracts import EffectStatus
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE
from tests.replay.scenarios import parked
from tests.world import World


async def test_a_state_written_into_the_mirror_by_hand_changes_no_way(world: World) -> None:
    world.counterparty.replies = [{"ok": True, "close": True}]
    async with world.worker(app, max_cached_workflows=0):
        await world.client.start("escalate", "a", Booking())
        await parked(world, "escalate", "a")
        await world.db.execute("update perdure.entity set state = 'failed', attention = null where id = 'a'")

        # It reads the fence, so it is told of the state too; and shows its own again.
        await world.handle("escalate", "a").signal("perdure-wake", "escalate/a/do-escalate")
        await parked(world, "escalate", "a")

        await world.client.resolve("escalate", "a", EffectStatus.NOT_DONE, by="ann", note="they say it never came")
        assert await world.ended("escalate", "a") == "done"
    assert world.counterparty.accepted == {"escalate/a/do-escalate": 1}
    assert await world.states("escalate", "a") == ["starting", "doing", "doing", "doing", "doing", "done"]


async def test_a_parked_run_whose_end_a_stale_worker_made_hears_of_it_and_ends(world: World) -> None:
    world.counterparty.replies = [{"ok": True, "accept": True, "close": True}]
    async with world.worker(app):
        await world.client.start("escalate", "a", Booking())
        await parked(world, "escalate", "a")
        async with world.db.transaction():  # what a worker leaves that was frozen, and woke up with an old task
            await world.db.execute("update perdure.effect set status = 'done', receipt = '{\"number\": 1}'")
            await world.db.execute("update perdure.ident set final = 'done', version = version + 1")
            await world.db.execute("delete from perdure.entity")
            await world.db.execute(
                "insert into perdure.outbox (lifecycle, id, generation, kind, body) "
                "values ('escalate', 'a', 0, 'wake', '{\"key\": \"escalate/a/do-escalate\"}')"
            )
        await world.handle("escalate", "a").result(rpc_timeout=timedelta(seconds=DEADLINE))
    assert (await world.client.status("escalate", "a")).state == "done"
    assert world.counterparty.accepted == {"escalate/a/do-escalate": 1}
