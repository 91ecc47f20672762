"""The random lifecycles that both worlds explore: their builds, their receipts, and what their steps do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.app import App, contracts_of
from perdure.contracts.keys import Entity
from perdure.testing.exploring.contracts import SCAN, Scan
from perdure.testing.exploring.interpreter import LIFECYCLES, Explored
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.programs import FOUND, NAME, TELL, Child, starter_of
from perdure.testing.exploring.subject import Act, Subject, bodies_of
from perdure.testing.exploring.world import LARGEST_RECEIPT

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World

CONTRACTS = contracts_of(Explored)
"""Effects, look-ups and steps, as the older build has them."""


def random_lifecycles() -> Subject:
    """An older build, and a newer one with one lifecycle more."""
    builds = {number: App(each, bodies_of(each[0])) for number, each in LIFECYCLES.items()}
    receipts = {**{each.identity: _receipt for each in CONTRACTS}, SCAN: _scan}
    acts: dict[str, Act] = {FOUND.identity: _start, TELL.identity: _tell}
    return Subject(NAME, builds, receipts, messages=(("note", "message {}".format),), secret=SECRET, acts=acts)


async def _start(world: World, child: Child) -> None:
    """The application commits a start, which changes nothing if it has the entity."""
    await world.relay.start_by_step(Entity(child.lifecycle, child.id), child.program)


async def _tell(world: World, entity_id: str) -> None:
    """The application commits a message to the entity that has started this one, once."""
    await world.relay.send_by_step(starter_of(entity_id), f"message of {entity_id}")


def _scan(given: str) -> Scan:
    return Scan(id=given, image="x" * (2 * LARGEST_RECEIPT) if given.endswith("large") else "")


def _receipt(given: Any) -> str:
    return f"receipt of {given}"
