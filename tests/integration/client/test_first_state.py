"""Only the lifecycle chooses the first state, and an entity has one once it is delivered."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum

import asyncpg
import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import App, AppColumn, Client, Lifecycle, state
from perdure._worker.record import check_record
from perdure.contracts.states import States
from perdure.errors import DeclarationError
from tests.command import perdure
from tests.world import World


class Phase(StrEnum):
    """Its states; the first has a name of its own."""

    DRAFT = "draft"
    OVER = state("over", final=True)


class Nothing(BaseModel):
    """It takes nothing."""


@workflow.defn(name="paper")
class Paper(Lifecycle[Nothing, Phase]):
    """Waits in its first state until it is told to end."""

    mirror = AppColumn("booking", column="state")

    def __init__(self) -> None:
        self._told = False

    @workflow.run
    async def run(self, given: Nothing) -> None:
        """Wait, and end."""
        await self.wait_for(lambda: self._told)
        await self.enter(Phase.OVER)

    @workflow.signal
    def end(self) -> None:
        """It may end."""
        self._told = True


app = App([Paper], [])

pytestmark = pytest.mark.world(app)


async def test_a_start_by_name_or_by_sql_keeps_no_worker_from_starting(world: World) -> None:
    await world.db.execute("insert into booking values ('a', 'as it was'), ('b', 'as it was')")
    await world.db.execute("select perdure.start('paper', 'a', '{}')")
    await Client(world.client._pool, config=world.config).start("paper", "b", {})
    for entity_id in ("a", "b"):
        standing = await world.client.status("paper", entity_id)
        assert (standing.state, standing.final, standing.waits_for_delivery) == ("starting", False, True)
    async with world.worker(app):
        for entity_id in ("a", "b"):
            await world.is_in("paper", entity_id, "draft")
            assert await world.states("paper", entity_id) == ["starting"]
        assert await world.db.fetchval("select count(*) from booking where state = 'as it was'") == 2
    async with world.worker(app):
        await world.client.signal("paper", "a", "end")
        assert await world.ended("paper", "a") == "over"
        assert await world.states("paper", "a") == ["starting", "over"]
        shown = "select state = 'over' from booking where id = 'a'"
        await world.until(lambda: world.db.fetchval(shown), "the app's row shows it")


async def test_a_restart_is_starting_again_and_its_first_state_replaces_the_end_in_the_apps_row(world: World) -> None:
    await world.db.execute("select perdure.start('paper', 'a', '{}')")
    await world.db.execute("""
        insert into booking values ('a', 'as it was');
        delete from perdure.outbox; delete from perdure.entity; update perdure.ident set final = 'over';
        insert into perdure.finished (lifecycle, id, generation, state, input, created_at) values
            ('paper', 'a', 0, 'over', '{}', now());
        insert into perdure.behind (lifecycle, id, app_table, app_column, app_key) values
            ('paper', 'a', 'booking', 'state', 'id')
    """)
    assert await world.db.fetchval("select perdure.restart('paper', 'a', 'ann', 'once more')") == 1
    assert await world.states("paper", "a") == ["starting", "starting"]
    async with world.worker(app):
        await world.is_in("paper", "a", "draft")
        await world.until(lambda: world.db.fetchval("select state = 'draft' from booking"), "the row shows it")
        await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.behind"), "all is shown")
    assert await world.states("paper", "a") == ["starting", "starting"]


async def test_a_delivery_never_waits_for_a_row_that_somebody_holds(world: World) -> None:
    await world.db.execute("select perdure.start('paper', 'a', '{}')")
    async with world.db.transaction():
        await world.db.execute("select from perdure.entity for update")
        async with world.worker(app):
            looking = await asyncpg.connect(world.dsn)
            await world.until(lambda: looking.fetchval("select count(*) = 0 from perdure.outbox"), "delivered")
            await looking.close()


async def test_a_start_takes_no_state(world: World) -> None:
    with pytest.raises(asyncpg.UndefinedFunctionError):
        await world.db.execute("select perdure.start('paper', 'a', '{}', state => 'nonsense')")


def test_no_state_can_be_called_what_is_shown_before_the_delivery() -> None:
    class Wrong(StrEnum):
        STARTING = "starting"
        OVER = state("over", final=True)

    with pytest.raises(DeclarationError, match="'starting' is what an entity shows until it is delivered"):
        States("paper", Wrong)


async def test_a_worker_that_does_not_start_names_an_entity_and_the_way_out(world: World) -> None:
    await world.db.execute("select perdure.start('paper', 'a b', '{}')")
    await world.db.execute("update perdure.entity set state = 'unheard of'")
    with pytest.raises(DeclarationError) as refused:
        await check_record(world.db, "paper", Paper)
    assert "paper: open ones are in the state 'unheard of', which it does not declare, paper/a b for one" in str(
        refused.value
    )
    _, _, listed = str(refused.value).partition("To see them: perdure ")
    end = await perdure(world, *shlex.split(listed), "--json")
    assert (end.exit_code, json.loads(end.stdout)["id"]) == (0, "a b"), end.stderr
