"""The workflow decides, the mirror shows: what somebody writes into the mirror changes no lifecycle's way."""

from __future__ import annotations

from perdure import Status
from tests.apps.bodies import app
from tests.apps.contracts import Errand
from tests.replay.scenarios import parked
from tests.world import World


async def test_a_state_written_into_the_mirror_by_hand_changes_no_way(world: World) -> None:
    world.counterparty.replies = [{"ok": True, "close": True}]
    async with world.worker(app, workflows_cached=0):
        await world.client.start("escalate", "a", Errand())
        await parked(world, "escalate", "a")
        await world.db.execute("update perdure.entity set state = 'failed', attention = null where id = 'a'")

        # It reads the fence, so it is told of the state too; and shows its own again.
        await world.handle("escalate", "a").signal("perdure-wake", "escalate/a/do-escalate")
        await parked(world, "escalate", "a")

        await world.client.resolve("escalate", "a", Status.NOT_DONE, by="ann", note="they say it never came")
        assert await world.ended("escalate", "a") == "done"
    assert world.counterparty.accepted == {"escalate/a/do-escalate": 1}
    assert await world.states("escalate", "a") == ["pending", "doing", "doing", "doing", "doing", "done"]
