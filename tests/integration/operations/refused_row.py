"""A row of the app that can't show the state of its entity."""

from __future__ import annotations

from perdure._services.follower import Follower
from tests.integration.store.stores import a_move, declared, store_at, written
from tests.world import World


async def refuse_state(world: World, entity_id: str) -> None:
    """End an entity of `lookup` whose id is no key of its table."""
    await world.db.execute("create table numbered (id bigint primary key, state text)")
    await declared(world.db, "lookup", "public.numbered", "id", "state")
    await world.db.execute("select perdure.start('lookup', $1, '{}')", entity_id)
    async with store_at(world.dsn) as store:
        await written(store, a_move(entity_id, 1, "done", final=True, lifecycle="lookup"))
        await Follower(store.pool).once()
