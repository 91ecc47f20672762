"""A doubt that outlives its entity stays on record, counted, and can still be settled."""

from __future__ import annotations

import pytest

from perdure.contracts import EffectStatus
from perdure.errors import AlreadyFinished, NotNow
from tests.acceptance.bookings import time_enough
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.world import World


async def test_a_doubt_left_by_an_expired_entity_blocks_a_restart_until_somebody_settles_it(world: World) -> None:
    async with world.worker(app):
        enough = await time_enough(world, "escalate")
        world.counterparty.replies = [{"ok": True, "accept": True, "close": True}]
        await world.client.start("escalate", "a", Booking(seconds=enough))
        assert await world.ended("escalate", "a") == "expired"
        assert [each.status for each in (await world.client.status("escalate", "a")).effects] == [EffectStatus.IN_DOUBT]
        with pytest.raises(NotNow, match="is not known"):
            await world.client.restart("escalate", "a", by="ann", note="again")

        with pytest.raises(NotNow, match="attempt 2 of do-escalate was not made: attempt 1 is in doubt"):
            await world.client.resolve("escalate", "a", EffectStatus.ABANDONED, by="ann", note="too old", attempt=2)

        said = await world.client.resolve(
            "escalate", "a", EffectStatus.ABANDONED, by="ann", note="too old to ask", attempt=1
        )
        assert said == "resolved as abandoned; it had ended as expired"
        with pytest.raises(AlreadyFinished):
            await world.client.resolve("escalate", "a", EffectStatus.DONE, by="bob", note="I saw it")

        assert await world.client.restart("escalate", "a", by="ann", note="again", given=Booking()) == 1
        assert await world.ended("escalate", "a") == "done"
    assert world.counterparty.accepted == {"escalate/a/do-escalate": 1, "escalate/a~1/do-escalate": 1}
