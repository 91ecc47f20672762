"""What is nested too deep to be read back is not kept, and an effect with such a receipt is done nevertheless."""

from __future__ import annotations

import json

import pytest

from perdure.contracts.sizes import DEEPEST
from tests.apps.deep import app, nested
from tests.apps.large import Wanted
from tests.world import World

pytestmark = pytest.mark.world(app)
TOO_DEEP = "is nested 100 levels deep or deeper: keep the rest in a table of yours, and give its key"


@pytest.mark.parametrize("levels", [DEEPEST, 230, 300])
@pytest.mark.parametrize(("way", "name"), [("regular", "nest"), ("inline", "nest-inline")])
async def test_an_effect_whose_receipt_is_nested_too_deep_is_done_without_it(
    world: World, way: str, name: str, levels: int
) -> None:
    await world.client.start("deep", "a", Wanted(what=way, size=levels))
    async with world.worker(app):
        assert await world.ended("deep", "a") == "over"
    (effect,) = await world.db.fetch("select status, receipt, why from perdure.effect")
    assert (effect["status"], effect["receipt"]) == ("done", None)
    assert "done; what the body returned can't be kept: " in effect["why"]
    if levels < 255:  # Pydantic converts no deeper data
        assert f"TooLarge: what {name} returned {TOO_DEEP}" in effect["why"]


@pytest.mark.parametrize("way", ["regular", "inline", "hint", "snapshot"])
async def test_what_is_nested_as_deep_as_allowed_is_kept_and_read_back(world: World, way: str) -> None:
    await world.client.start("deep", "a", Wanted(what=way, size=DEEPEST - 2 if way == "snapshot" else DEEPEST - 1))
    async with world.worker(app):
        assert await world.ended("deep", "a") == "over"
    if way in ("regular", "inline"):
        assert json.loads(await world.db.fetchval("select receipt from perdure.effect")) == nested(DEEPEST - 1)


async def test_a_look_up_hint_that_is_nested_too_deep_is_refused_in_the_body(world: World) -> None:
    await world.client.start("deep", "a", Wanted(what="hint", size=DEEPEST))
    async with world.worker(app):
        assert await world.ended("deep", "a") == "over"
    (effect,) = await world.db.fetch("select status, lookup_hint, why from perdure.effect")
    assert (effect["status"], effect["lookup_hint"]) == ("refused", None)
    assert effect["why"] == f"deep/a/nest-hint: the lookup_hint {TOO_DEEP}"


async def test_a_snapshot_that_is_nested_too_deep_fails_the_task_and_writes_nothing(world: World) -> None:
    await world.client.start("deep", "a", Wanted(what="snapshot", size=DEEPEST))
    async with world.worker(app):
        attention = "select attention from perdure.entity where attention is not null"
        said = await world.until(lambda: world.db.fetchval(attention), "a person is needed")
        assert f"TooLarge: deep/a: the snapshot of what it writes {TOO_DEEP}" in said
        assert await world.states("deep", "a") == ["starting"]
