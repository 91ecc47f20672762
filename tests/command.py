"""The command `perdure`, run in the process of a test or in one of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner, Result

from perdure.cli import cli
from perdure.servers.ports import free_port
from tests.deadline import in_time
from tests.world import World

APP = ("--app", "tests.apps.bodies:app")


async def perdure(world: World, *arguments: str, given: str | None = None, **more: str) -> Result:
    """Run `perdure` in this process, beside the test's own loop; `given` is its standard input."""
    environment = {**world.environment(), **more}
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments, given, environment)


async def process(world: World, *arguments: str) -> tuple[int | None, str, str]:
    """Run `perdure` as a shell does: exit status, output, errors."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", *arguments),
        env=world.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await in_time(running.communicate())
    return running.returncode, output.decode(), errors.decode()


async def shown(world: World, lifecycle: str, entity_id: str, *more: str) -> dict[str, Any]:
    """The output of `perdure show --json` for an entity, as data."""
    end = await perdure(world, "show", lifecycle, entity_id, "--json", *APP, *more)
    assert end.exit_code == 0, end.output
    found: dict[str, Any] = json.loads(end.stdout)
    return found


async def stands(
    world: World, lifecycle: str, entity_id: str, condition: str, fits: Callable[[str], bool] = bool
) -> str:
    """Wait until `perdure show` reports this condition, in a sentence that `fits`; returns the sentence."""

    async def so() -> str:
        found = await shown(world, lifecycle, entity_id)
        sentence = str(found["sentence"])
        return sentence if found["condition"] == condition and fits(sentence) else ""

    return str(await world.until(so, f"{lifecycle}/{entity_id} {condition}"))


def nobody() -> str:
    """An address where no server answers."""
    return f"127.0.0.1:{free_port()}"
