"""What an act of an operator has changed, and how far it has come."""

from __future__ import annotations

from typing import Any

from tests.world import World

LOST = {"accept": True, "close": True}
TOUCHED = (
    "select 'transition', t::text from perdure.transition t union all select 'ident', i::text from perdure.ident i "
    "union all select 'effect', e::text from perdure.effect e union all select 'outbox', o::text from perdure.outbox o "
    "union all select 'entity', x::text from perdure.entity x order by 1, 2"
)


async def untouched(world: World) -> list[Any]:
    """All that an act could change."""
    return [tuple(row) for row in await world.db.fetch(TOUCHED)]


async def record(world: World, lifecycle: str, entity_id: str) -> list[tuple[str, str | None, str | None]]:
    """State, who and why of what somebody did, oldest first."""
    rows = await world.db.fetch(
        "select state, made_by, why from perdure.transition where lifecycle = $1 and id = $2 and made_by is not null "
        "order by generation, version, at",
        *(lifecycle, entity_id),
    )
    return [(row["state"], row["made_by"], row["why"]) for row in rows]


async def parked(world: World, count: int = 1) -> None:
    """Wait until so many are parked in doubt."""
    waiting = f"select count(*) = {count} from perdure.entity where attention like '% is in doubt: %'"
    await world.until(lambda: world.db.fetchval(waiting), f"{count} parked")


async def delivered(world: World) -> None:
    """Wait until the relay has forgotten what it delivered: a lifecycle may be at its end before."""
    await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.outbox"), "all delivered")
