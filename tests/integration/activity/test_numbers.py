"""Infinity and NaN are not kept as null, and an effect with such a receipt is done nevertheless."""

from __future__ import annotations

import pytest

from tests.apps.numbers import Measured, app
from tests.world import World

pytestmark = pytest.mark.world(app)


async def test_an_effect_whose_receipt_is_no_number_of_json_is_done_without_it(world: World) -> None:
    await world.client.start("numbers", "a", Measured(what="receipt"))
    async with world.worker(app):
        assert await world.ended("numbers", "a") == "over"
    (effect,) = await world.db.fetch("select status, attempts, receipt, why from perdure.effect")
    assert (effect["status"], effect["attempts"], effect["receipt"]) == ("done", 1, None)
    assert "done; what the body returned can't be kept: InvalidInput: the whole is Infinity or NaN" in effect["why"]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("snapshot", "price is Infinity or NaN"),
        ("alias", "its type does not read what it writes, or not all of it"),
    ],
)
async def test_a_snapshot_that_would_lose_something_fails_the_task_and_writes_nothing(
    world: World, what: str, why: str
) -> None:
    await world.client.start("numbers", "a", Measured(what=what))
    async with world.worker(app):
        attention = "select attention from perdure.entity where attention is not null"
        said = await world.until(lambda: world.db.fetchval(attention), "a person is needed")
        assert f"InvalidInput: numbers/a: the snapshot can't be kept: {why}" in said
        assert await world.states("numbers", "a") == ["starting"]
