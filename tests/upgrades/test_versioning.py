"""Worker versioning is one setting: a pinned lifecycle ends on the build that it began with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest

from perdure import Settings
from perdure.errors import InvalidSetting
from perdure.settings import settings
from tests.command import perdure
from tests.upgrades import calls, effects, states
from tests.upgrades.edited_entity import PARCEL, EditedEntity
from tests.world import World


@pytest.fixture
def entity(world: World) -> EditedEntity:
    return EditedEntity(world)


async def test_a_pinned_lifecycle_ends_on_its_own_build_and_new_ones_begin_on_the_current_one(
    entity: EditedEntity,
) -> None:
    one, two = f"shop-{entity.world.scope}:1", f"shop-{entity.world.scope}:2"
    # What the first one keeps to has a task queue of its own, of the same build.
    async with entity.worker(effects.Limited, deployment=one):
        await entity.world.make_current(one)
        await entity.start()
        await entity.world.asked(PARCEL, "a")  # it has begun on the first build
        async with entity.worker(calls.Inserted, deployment=two):  # it could not follow what the other began
            await entity.world.make_current(two)
            await entity.start(entity_id="b")
            await entity.go()
            await entity.go("b")
            assert await entity.end() == await entity.end("b") == "done"
    assert sorted(entity.other.accepted) == ["parcel/a/send-parcel", "parcel/b/announce-parcel", "parcel/b/send-parcel"]
    assert await entity.failures() == 0


async def test_with_auto_an_open_lifecycle_goes_on_with_the_current_build(entity: EditedEntity) -> None:
    one, two = f"shop-{entity.world.scope}:1:auto", f"shop-{entity.world.scope}:2:auto"
    async with entity.worker(effects.Escalating, deployment=one):
        await entity.world.make_current(one)
        await entity.start()
        await entity.world.asked(PARCEL, "a")  # it has begun on the first build
    async with entity.worker(states.OneMore, deployment=two):
        await entity.world.make_current(two)

        async def listed() -> bool:
            return {each["build"]: each["open"] for each in await _builds(entity.world)} == {"1": 1, "2": 0}

        await entity.world.until(listed, "it is on the first build, whose workers have ended")
        [old] = [each for each in await _builds(entity.world) if each["build"] == "1"]
        assert (old["must_stay"], old["why"]) == (False, "no: those open on it continue on the current build")
        await entity.go()
        assert await entity.end() == "done"
    assert await entity.world.states(PARCEL, "a") == ["starting", "doing", "checked", "done"]


async def test_status_shows_the_builds_of_a_deployment_that_was_renamed(entity: EditedEntity) -> None:
    world = entity.world
    old, new = f"shop-{world.scope}", f"store-{world.scope}"
    async with entity.worker(effects.Limited, deployment=f"{old}:1"):
        await world.make_current(f"{old}:1")
        await entity.start()
        await world.asked(PARCEL, "a")
    async with entity.worker(calls.Inserted, deployment=f"{new}:1"):
        await world.make_current(f"{new}:1")
        await entity.start(entity_id="b")
        await world.asked(PARCEL, "b")

        async def shown() -> bool:
            found = {each["deployment"]: (each["open"], each["must_stay"]) for each in await _builds(world)}
            return found == {old: (1, True), new: (1, True)}

        await world.until(shown, "one lifecycle on each build")


async def test_status_shows_the_builds_that_were_left_for_unversioned_workers(entity: EditedEntity) -> None:
    world = entity.world
    name = f"shop-{world.scope}"
    async with entity.worker(effects.Limited, deployment=f"{name}:1"):
        await world.make_current(f"{name}:1")
        await entity.start()
        await world.asked(PARCEL, "a")
    async with entity.worker(effects.Limited):
        unversioned = SetWorkerDeploymentCurrentVersionRequest(
            namespace="default", deployment_name=name, ignore_missing_task_queues=True
        )
        await world.temporal_client.workflow_service.set_worker_deployment_current_version(unversioned)

        async def shown() -> bool:
            return [(each["status"], each["open"], each["must_stay"]) for each in await _builds(world)] == [
                ("draining", 1, True)
            ]

        await world.until(shown, "one lifecycle on the build that was left")


async def test_show_names_the_build_that_a_pinned_lifecycle_waits_for(entity: EditedEntity) -> None:
    world = entity.world
    one, two = f"shop-{world.scope}:1", f"shop-{world.scope}:2"
    async with entity.worker(effects.Limited, deployment=one):
        await world.make_current(one)
        await entity.start()
        await world.asked(PARCEL, "a")
    async with entity.worker(calls.Inserted, deployment=two):
        await world.make_current(two)
        await entity.go()

        async def shown() -> bool:
            return f"waits for a worker of build {one}" in (await perdure(world, "show", PARCEL, "a")).stdout

        await world.until(shown, "the build that nobody works for")


async def _builds(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await perdure(world, "status", "--json")).stdout)["builds"]
    return found


async def test_a_pinned_lifecycle_goes_on_in_a_new_run_of_its_own_build(entity: EditedEntity) -> None:
    from tests.upgrades import shapes

    letters = EditedEntity(entity.world, shapes.NAME)
    one = f"post-{entity.world.scope}:1"
    async with letters.worker(shapes.Before, deployment=one):
        await entity.world.make_current(one)
        await letters.start({"to": "eve"})
        handle = entity.world.handle(shapes.NAME, "a")
        await handle.signal("tell", "renew")
        await entity.world.until(lambda: _runs(letters, 2), "a new run")
        await handle.signal("tell", "send")
        assert await letters.end() == "done"


async def _runs(entity: EditedEntity, count: int) -> bool:
    return len(await entity.histories()) == count


@pytest.mark.parametrize("given", ["shop", "shop:", "my.shop:1", "shop:1:always"])
def test_a_deployment_that_is_no_name_and_build_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DEPLOYMENT", given)
    with pytest.raises(InvalidSetting, match="PERDURE_DEPLOYMENT="):
        settings()
    assert Settings(deployment="shop:1.2.3-rc1").deployment == "shop:1.2.3-rc1"


async def test_a_build_that_has_run_lifecycles_starts_again_beside_a_newer_one_with_states_of_its_own(
    entity: EditedEntity, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, three = (f"shop-{entity.world.scope}:{build}" for build in (1, 2, 3))
    async with entity.worker(effects.Escalating, deployment=one):
        await entity.world.make_current(one)
        await entity.start()
        await entity.world.asked(PARCEL)
    async with entity.worker(states.Weighing, deployment=two):
        await entity.world.make_current(two)
        await entity.start(entity_id="b")
        await entity.world.is_in(PARCEL, "b", "weighed")
        assert "in the state 'weighed'" in await entity.refused(effects.Escalating, deployment=three)
        async with entity.worker(effects.Escalating, deployment=one):
            await entity.go()
            assert await entity.end() == "done"
    assert "does not fit all open lifecycles" in caplog.text
