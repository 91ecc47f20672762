"""`perdure replay` tells before a deploy what could not be followed after it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perdure.cli import cli
from tests.apps.bodies import app as bodies
from tests.deadline import in_time
from tests.replay.record import RELEASES, release
from tests.upgrades import effects
from tests.upgrades.edited_entity import PARCEL, EditedEntity
from tests.world import World


async def _replay_from_server(world: World, *arguments: str, **environment: str) -> tuple[int, list[str], str]:
    """Exit status, lines, complaints; in a process of its own, as an operator runs it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "replay", *arguments),
        env={**world.environment(), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await in_time(process.communicate())
    assert process.returncode is not None
    return process.returncode, said.decode().splitlines(), complained.decode()


async def _replay(*arguments: str) -> tuple[int, list[str], str]:
    """The same in this process, for what needs no server: the most of its time a process takes to begin."""
    end = await asyncio.to_thread(CliRunner().invoke, cli, ["replay", *arguments])
    return end.exit_code, end.stdout.splitlines(), end.stderr


async def test_an_edit_that_open_lifecycles_can_not_follow_is_named_and_one_that_they_can_is_passed(
    world: World, tmp_path: Path
) -> None:
    entity = EditedEntity(world)
    world.counterparty.replies = [{"refused": "no"}] * 2
    async with entity.worker(effects.Escalating):
        for each in ("a", "b"):
            await entity.start(entity_id=each)
            await entity.go(each)
            await world.is_in(PARCEL, each, "failed")
    run = (await world.handle(PARCEL, "a").describe()).run_id
    folder = tmp_path / "histories"

    async def listed() -> bool:
        return len(await entity.histories()) == 2

    await world.until(listed, "the server's list knows both")
    bad, good = await asyncio.gather(
        _replay_from_server(world, "tests.upgrades.apps:inserted", "--save", str(folder)),
        _replay_from_server(world, "tests.upgrades.apps:patched", "--query", f"WorkflowId = '{world.scope}:parcel/a'"),
    )
    status, lines, _ = bad
    assert status == 1
    assert lines[-1] == "2 runs replayed, 2 can't be followed, 0 of other workflows"
    [line] = [each for each in lines if each.startswith(f"{world.scope}:parcel/a ")]
    assert line.startswith(f"{world.scope}:parcel/a {run} parcel: event ")
    assert "Nondeterminism" in line
    assert good == (0, ["1 runs replayed, 0 can't be followed, 0 of other workflows"], "")

    kept = [str(each) for each in sorted(folder.rglob("*.json"))]
    assert len(kept) == 2
    bad = await _replay("tests.upgrades.apps:inserted", "--from", kept[0], "--limit", "1")
    good = await _replay("tests.upgrades.apps:before", "--from", str(folder))
    assert (bad[0], bad[1][-1]) == (1, "1 runs replayed, 1 can't be followed, 0 of other workflows")
    assert good == (0, ["2 runs replayed, 0 can't be followed, 0 of other workflows"], "")


async def test_open_runs_of_a_lifecycle_that_the_code_does_not_have_are_named(world: World) -> None:
    entity = EditedEntity(world)
    async with entity.worker(effects.Escalating):
        await entity.start(entity_id="a")
    async with world.worker(bodies) as client:
        await world.client.start("counter", "a", {})
        await world.asked("counter", "a")
        await client.start_workflow("plain", id="counter-of-plain", task_queue=world.config.queue)
    command = ("tests.apps.bodies:app",)

    async def all_listed() -> tuple[int, list[str], str] | None:
        replayed = await _replay_from_server(world, *command)
        return replayed if "1 of other workflows" in replayed[1][-1] else None

    status, lines, complained = await world.until(all_listed, "the server's list knows both")
    assert (status, lines) == (1, ["1 runs replayed, 0 can't be followed, 1 of other workflows"])
    assert complained == (
        f"perdure: the App has no lifecycle '{PARCEL}', of which 1 are open: no worker could continue them\n"
    )
    by_query = await _replay_from_server(world, *command, "--query", f"TaskQueue = '{world.config.queue}'")
    assert by_query == (0, ["1 runs replayed, 0 can't be followed, 2 of other workflows"], "")


async def test_a_query_that_temporal_cannot_read_is_named(world: World) -> None:
    status, _, complained = await _replay_from_server(world, "tests.upgrades.apps:before", "--query", "Nothing = 'a'")
    assert status != 0
    assert "Temporal can't read the query \"Nothing = 'a'\"" in complained


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--from", "nowhere"], 2, "does not exist"),
        (["--from", "{histories}", "--query", "x"], 2, "give one of both"),
        (["--from", "{empty}"], 1, "no *.json in"),
        (["--from", "{broken}"], 1, "is no history of a workflow"),
        (["--from", "{histories}"], 1, "0 runs replayed, 0 can't be followed, {recorded} of other workflows"),
    ],
)
def test_histories_that_cannot_be_replayed_are_reported(
    tmp_path: Path, arguments: list[str], status: int, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{}")
    names = {
        "empty": tmp_path / "empty",
        "broken": tmp_path / "broken.json",
        "histories": RELEASES / release() / "histories",
    }
    recorded = len(list(names["histories"].iterdir()))
    given = [each.format(**names) for each in arguments]
    end = CliRunner().invoke(cli, ["replay", "tests.upgrades.apps:before", *given])
    assert end.exit_code == status
    assert complaint.format(recorded=recorded) in end.output + str(end.exception)
