"""`/live` says no when only a new process can help, not when something is away; `/ready` names what is missing."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import aiohttp
import psutil

from perdure.servers.ports import free_port
from perdure.testing.proxy import proxied
from tests.deadline import DEADLINE, in_time
from tests.world import World


@dataclass
class Asked:
    """Asks a process that serves its health at a port."""

    port: int = field(default_factory=free_port)

    @property
    def address(self) -> str:
        """For PERDURE_HEALTH."""
        return f"127.0.0.1:{self.port}"

    async def ask(self, question: str, patience: float = DEADLINE) -> tuple[int, dict[str, Any]]:
        """Status and body; status 0 if it does not answer in so many seconds."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=patience)) as http,
                http.get(f"http://{self.address}/{question}") as answer,
            ):
                return answer.status, await answer.json()
        except (TimeoutError, aiohttp.ClientError):
            return 0, {}

    async def missing(self, *services: str) -> dict[str, str]:
        """What `/ready` names, by service; None unless it is just these. It is live all the time."""
        status, body = await self.ask("live")
        assert (status, body) == (200, {"live": True, "reasons": []})
        status, body = await self.ask("ready")
        assert body["ready"] is (status == 200)
        assert all(datetime.fromisoformat(each["since"]) for each in body["reasons"])
        found = {each["service"]: each["why"] for each in body["reasons"]}
        return found if services and {*services} <= {*found} else {}

    async def ready(self) -> bool:
        """Whether nothing is missing."""
        return await self.ask("ready") == (200, {"ready": True, "reasons": []})

    async def dead(self, service: str) -> bool:
        """Whether only a new process helps, because of this service."""
        status, body = await self.ask("live")
        return status == 503 and service in [each["service"] for each in body["reasons"]]


async def test_an_unavailable_server_makes_a_process_not_ready_and_still_live(mortal: World) -> None:
    asked = Asked()
    async with proxied(mortal.postgres.port) as proxy:
        url = mortal.dsn.replace(str(mortal.postgres.port), str(proxy.port))
        worker = await mortal.spawn(
            "tests.apps.freezing:app",
            PERDURE_HEALTH=asked.address,
            PERDURE_DATABASE_URL=url,
            FREEZING_FOLDER=str(mortal.folder),
            FREEZING_WITHIN="60",
        )
        await mortal.until(asked.ready, "it is ready")
        try:
            await asyncio.to_thread(mortal.temporal.stop)
            await mortal.until(lambda: asked.missing("pollers"), "Temporal is missing", every=0.3)
            await asyncio.to_thread(mortal.temporal.start)
            await mortal.until(asked.ready, "it is ready with Temporal", every=0.3)
            await asyncio.to_thread(mortal.postgres.stop)
            await mortal.until(lambda: asked.missing("relay", "ownership"), "PostgreSQL is missing", every=0.3)
        finally:
            await mortal.servers_are_back()
        await mortal.until(asked.ready, "it is ready with PostgreSQL", every=0.3)
        proxy.freeze(new_ones=True)
        missing = await mortal.until(lambda: asked.missing("relay"), "nothing comes through", every=0.3)
        assert missing["relay"].startswith("PostgreSQL ")
        proxy.thaw()
        proxy.cut()
        await mortal.until(asked.ready, "it is ready with a new connection", every=0.3)
    assert await worker.stop() == 0


async def test_a_service_or_an_event_loop_that_stands_still_is_reported_until_it_goes_on(world: World) -> None:
    asked, folder = Asked(), world.folder
    worker = await world.spawn("tests.apps.freezing:app", PERDURE_HEALTH=asked.address, FREEZING_FOLDER=str(folder))
    await world.until(asked.ready, "it is ready")
    for service in ("follower", "event loop"):
        (folder / service).touch()
        await world.until(partial(asked.dead, service), f"{service} is reported", every=0.3)
        assert (await asked.ask("ready"))[0] == 503
        (folder / service).unlink()
        await world.until(asked.ready, "it goes on", every=0.3)
    await worker.freeze()
    assert await asked.ask("live", 2) == (0, {})
    worker.thaw()
    await world.until(asked.ready, "it goes on", every=0.3)


async def test_a_worker_process_that_hangs_is_replaced_and_its_siblings_stay(world: World) -> None:
    asked, hurry = Asked(), world.folder / "hurry"
    environment = {
        "PERDURE_HEALTH": asked.address,
        "FREEZING_FOLDER": str(world.folder),
        "FREEZING_WITHIN": str(DEADLINE),  # a start that takes long is no hang
    }
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "worker", "tests.apps.freezing:app", "--processes", "2"),
        env={**world.environment(), **environment},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await world.until(asked.ready, "both are ready", every=0.3)
        first, second = psutil.Process(supervisor.pid).children()
        first.suspend()
        hurry.touch()
        await world.until(lambda: not first.is_running(), "the first is ended")
        hurry.unlink()
        await world.until(asked.ready, "both are ready again", every=0.3)
        assert (await asked.ask("live"))[0] == 200
        assert second.is_running()
        supervisor.send_signal(signal.SIGTERM)
        assert await in_time(supervisor.wait()) == 0
    finally:
        if supervisor.returncode is None:
            supervisor.kill()
            await supervisor.wait()
