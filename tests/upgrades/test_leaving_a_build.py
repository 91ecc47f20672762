"""A pinned lifecycle leaves an old build, whose workers can then be stopped. The dev server of the tests is too old."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.temporal_server import TemporalOnPostgres
from perdure.servers.temporal import TemporalServer
from tests.command import perdure
from tests.upgrades import shapes
from tests.upgrades.edited_entity import EditedEntity
from tests.world import World

PAGE = Path(__file__).parents[2] / "docs/upgrading.md"
SERVES, STAYS = "yes: new lifecycles begin on it", "yes: until the last of them has left"
GOES = "no: stop its workers"


@pytest.fixture(scope="module")
def temporal() -> Iterator[TemporalServer]:
    """The server for production, of today."""
    with TemporalOnPostgres() as server:
        yield server


async def test_one_that_only_waits_moves_on_when_it_is_woken_and_status_counts_those_that_stay(world: World) -> None:
    letters = EditedEntity(world, shapes.NAME)
    name = f"post-{world.scope}"
    async with letters.worker(shapes.Before, deployment=f"{name}:1"):
        await world.make_current(f"{name}:1")
        await letters.start({"to": "eve"})
        await world.until(lambda: _open(world, name, {"1": 1}), "it is on the first build")
        async with letters.worker(shapes.InputWithDefault, deployment=f"{name}:2"):
            await world.make_current(f"{name}:2")
            await world.until(lambda: _open(world, name, {"1": 1, "2": 0}), "it stays there while it waits")
            assert await _verdicts(world, name) == {"1": STAYS, "2": SERVES}
            await world.until(lambda: _woken(world, name), "the command of the manual moves it on")
            assert await _verdicts(world, name) == {"1": GOES, "2": SERVES}
    # The first build is stopped: it could not end there any more.
    async with letters.worker(shapes.InputWithDefault, deployment=f"{name}:2"):
        await world.handle(shapes.NAME, "a").signal("tell", "send")
        assert await letters.end() == "done"


async def _woken(world: World, name: str) -> bool:
    """Whether it has left after the command that the page gives. The server may still have the older build as current
    for a moment after the change; then it needs the command again."""
    command = PAGE.read_text().rpartition("$ temporal workflow signal")[2].partition("```")[0].replace("\\\n", " ")
    arguments = shlex.split(command.replace("shop:1", f"{name}:1"))
    [shown] = [each["wake"] for each in await _builds(world, name) if each["build"] == "1"]
    if shown is not None:  # the same command, as `perdure status` prints it
        assert {*arguments} - {"leave build 1"} <= {*shlex.split(shown)}
    await world.temporal_command("workflow", "signal", *arguments, "--yes")
    for _ in range(5):
        if await _open(world, name, {"1": 0, "2": 1}):
            return True
    return False


async def _open(world: World, name: str, wanted: dict[str, int]) -> bool:
    """Whether `perdure status` shows so many open lifecycles by build."""
    return {each["build"]: each["open"] for each in await _builds(world, name)} == wanted


async def _verdicts(world: World, name: str) -> dict[str, str]:
    """By build, whether its workers must stay."""
    found = {each["build"]: each["why"] for each in await _builds(world, name)}
    table = (await perdure(world, "status")).stdout
    assert "must its workers stay?" in table
    assert all(why in table for why in found.values())
    return found


async def _builds(world: World, name: str) -> list[dict[str, Any]]:
    shown = await perdure(world, "status", "--json")
    return [each for each in json.loads(shown.stdout)["builds"] if each["deployment"] == name]
