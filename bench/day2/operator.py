"""What an operator runs: `perdure` and `temporal`, with the settings of the rig."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

from bench.failover.rig import Rig
from perdure.servers.temporal_binary import obtain_temporal

ASKED_EVERY = 0.5


class Operator:
    """Runs commands.

    Attributes:
        saw: what came of them, for the table.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.saw: list[str] = []

    async def perdure(self, *arguments: str, dsn: str = "", may_fail: bool = False, **more: str) -> str:
        """Run `perdure`; its output.

        Raises:
            RuntimeError: it failed.
        """
        return await self._run((sys.executable, "-m", "perdure.cli", *arguments), may_fail, dsn, more)

    async def temporal(self, *arguments: str) -> str:
        """Run Temporal's command.

        Raises:
            RuntimeError: it failed.
        """
        program = str(await asyncio.to_thread(obtain_temporal))
        place = ("--address", self.rig.temporal.address, "--namespace", self.rig.temporal.namespace)
        return await self._run((program, *arguments, *place), False, "", {})

    async def run(self, *command: str, may_fail: bool = False) -> str:
        """Run anything else.

        Raises:
            RuntimeError: it failed.
        """
        return await self._run(command, may_fail, "", {})

    async def until_shows(self, seen: Callable[[str], bool], *arguments: str) -> float:
        """Run `perdure` again and again until its output is as wanted; seconds that it took."""
        began = time.monotonic()
        while not seen(await self.perdure(*arguments, may_fail=True)):
            if time.monotonic() - began > 600:
                raise TimeoutError(f"perdure {' '.join(arguments)} never showed it")
            await asyncio.sleep(ASKED_EVERY)
        return time.monotonic() - began

    async def _run(self, command: tuple[str, ...], may_fail: bool, dsn: str, more: dict[str, str]) -> str:
        environment = {
            **os.environ,
            "PERDURE_DATABASE_URL": dsn or self.rig.dsn(),
            "TEMPORAL_ADDRESS": self.rig.temporal.address,
            "SHOP_SIDE": "look-up",
            "PERDURE_BY": "ann",
            "COLUMNS": "200",
            **more,
        }
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        output = (await process.communicate())[0].decode(errors="replace")
        if process.returncode and not may_fail:
            raise RuntimeError(f"{' '.join(command[-8:])}: exit status {process.returncode}\n{output}")
        return output
