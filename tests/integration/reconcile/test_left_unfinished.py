"""`perdure retry` continues an entity whose workflow has ended, once a reconciliation could not record that end."""

from __future__ import annotations

import pytest
from typer.testing import Result

from tests.apps.failing import app, other_app
from tests.command import perdure
from tests.deadline import in_time
from tests.integration.reconcile.reconciling import OLD_ENOUGH, begun, put_back, reconciling
from tests.world import World

pytestmark = pytest.mark.world(app, reconciliation_every=24.0)

ENDED = "its workflow has ended, and its end could not be recorded"


async def test_what_has_ended_in_a_state_that_is_not_final_today_continues(world: World) -> None:
    async with world.worker(app), reconciling(world, app, OLD_ENOUGH) as reconciliation:
        await begun(world, "staying/a")
        await world.db.execute("update perdure.ident set generation = 1")
        await world.handle("staying", "a").signal("go")
        await in_time(world.handle("staying", "a").result())
        await world.db.execute("update perdure.ident set generation = 0")  # as a restore does
        assert "`perdure reconcile --now staying a` records that" in (await retried(world, "staying")).stderr
        await reconciliation.open_entities()
        assert "perdure retry staying a --by YOU" in await reconciliation.said("unfinished")
        end = await retried(world, "staying")
        assert (end.exit_code, end.stdout) == (0, f"staying/a: {ENDED}: started again from its record\n")
        await world.until_delivered("staying", "a")
        await world.handle("staying", "a").signal("go")
        assert await world.ended("staying", "a") == "out"


async def test_what_has_ended_with_a_history_that_code_can_not_follow_continues_and_repeats_nothing(
    world: World,
) -> None:
    async with world.worker(app):
        await begun(world, "lookup/a")
        await world.ended("lookup", "a")
        await in_time(world.handle("lookup", "a").result())
    await put_back(world, "lookup", "a", "doing")
    async with world.worker(other_app), reconciling(world, app, OLD_ENOUGH) as reconciliation:
        await reconciliation.open_entities()
        assert "today's code can't follow its history" in await reconciliation.said("unfinished")
        assert (await retried(world, "lookup")).exit_code == 0
        assert await world.ended("lookup", "a") == "done"
    assert list(world.counterparty.accepted.values()) == [1]


async def test_what_has_ended_is_not_started_again_while_a_reconciliation_can_record_its_end(world: World) -> None:
    async with world.worker(app), reconciling(world, app, OLD_ENOUGH) as reconciliation:
        await begun(world, "lookup/a")
        await world.ended("lookup", "a")
        await in_time(world.handle("lookup", "a").result())
        await put_back(world, "lookup", "a", "doing")
        end = await retried(world, "lookup")
        assert (end.exit_code, end.stdout) == (1, "")
        await reconciliation.open_entities()
        assert await world.ended("lookup", "a") == "done"


async def retried(world: World, lifecycle: str) -> Result:
    """Retry the entity `a`."""
    return await perdure(world, "retry", lifecycle, "a", "--by", "ann")
