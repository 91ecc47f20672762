"""Each command of the chart's manifests is run as they say: with their variables, their probes, their SIGTERM."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from perdure.servers.ports import free_port
from tests.deadline import in_time
from tests.infra.chart.manifests import manifests, pods
from tests.world import World

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "LANG", "TMPDIR")


class Container:
    """A container of a manifest, run on this machine. Secrets are those of the world."""

    def __init__(self, world: World, spec: dict[str, Any], **more: str) -> None:
        self.name = spec["name"]
        self._spec = spec
        self._world = world
        given = {each["name"]: self._value(each) for each in spec["env"]}
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"  # as in the image
        self.environment = kept | {"HOME": "/nonexistent"} | given | more
        self._log = world.folder / f"{self.name}-{secrets.token_hex(3)}.log"
        self._process: asyncio.subprocess.Process | None = None

    def _value(self, variable: dict[str, Any]) -> str:
        if "value" in variable:
            return str(variable["value"]).replace("/var/lib/perdure", str(self._world.folder / "state"))
        assert variable["valueFrom"]["secretKeyRef"]["name"] == "perdure-database"
        return self._world.dsn

    async def start(self) -> None:
        """Run its command."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._spec["command"], env={**self.environment, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
            )

    async def succeeded(self) -> None:
        """Run it to its end."""
        await self.start()
        assert self._process is not None
        assert await in_time(self._process.wait()) == 0, self._log.read_text()

    async def admits(self, probe: str) -> bool:
        """Whether its probe succeeds, as the node sees it."""
        assert self._process is not None
        assert self._process.returncode is None, self._log.read_text()
        rule = self._spec[probe]["httpGet"]
        [port] = [each["containerPort"] for each in self._spec["ports"] if each["name"] == rule["port"]]
        try:
            async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}{rule['path']}") as answer:
                return answer.status < 400
        except (OSError, aiohttp.ClientError):
            return False

    async def is_ready(self) -> None:
        """Wait until each of its probes succeeds."""
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in self._spec:
                await self._world.until(partial(self.admits, probe), f"{self.name}: {probe}, see {self._log}")

    async def stop(self) -> int:
        """SIGTERM; its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await in_time(self._process.wait())

    async def end(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def values(world: World, **more: Any) -> Path:
    """A file of values for the servers of a world."""
    given = {
        "app": "tests.apps.bodies:app",
        "scope": world.scope,
        "image": {"repository": "shop", "tag": "1"},
        "temporal": {"address": world.temporal.address},
        "environment": {"COUNTERPARTY_PORT": str(world.counterparty.port), "PERDURE_RELAY_POLL_INTERVAL": "0.05"},
        "listen": "127.0.0.1",
        "health": {"port": free_port()},
        "metrics": {"port": free_port()},
    }
    file = world.folder / f"values-{secrets.token_hex(3)}.yaml"
    file.write_text(yaml.safe_dump(given | more))
    return file


def of(found: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The pod of one manifest."""
    [manifest] = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, f"shop-{name}")]
    [pod] = pods(manifest)
    return pod


@asynccontextmanager
async def running(world: World, spec: dict[str, Any], **more: str) -> AsyncIterator[Container]:
    """Run a container until the block ends; its probes have succeeded."""
    container = Container(world, spec, **more)
    try:
        await container.start()
        await container.is_ready()
        yield container
        assert await container.stop() == 0
    finally:
        await container.end()


@pytest.fixture
async def role(world: World) -> AsyncIterator[str]:
    """A role that the migration grants rights to."""
    name = "chart_" + secrets.token_hex(4)
    await world.db.execute(f"create role {name}")
    yield name
    await world.db.execute(f"drop owned by {name}; drop role {name}")


async def test_a_fleet_of_its_processes_does_the_work_of_one_worker(world: World, role: str) -> None:
    more: dict[str, Any] = {
        "migration": {"grants": [[role, "--as", "worker"]]},
        "reconciliation": {"cronJob": {"enabled": True}},
        "console": {
            "enabled": True,
            "port": free_port(),
            "arguments": ["--proxy-header=X-Forwarded-User", "--proxy-from=127.0.0.1", "--grant=*=look"],
        },
    }
    found = manifests(values(world, **more))
    migration = of(found, "Job", "migration")
    for step in [*migration["initContainers"], *migration["containers"]]:
        await Container(world, step).succeeded()
    assert await world.db.fetchval("select has_table_privilege($1, 'perdure.outbox', 'insert')", role)
    # Without one, a worker makes the first some 30 s after its start, and the Job joins that.
    await world.db.execute("insert into perdure.reconciliation (asked_by, ended_at) values ('yesterday', now())")
    others = manifests(values(world, **more))  # on this machine two pods can't have one port
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(world, of(found, "Deployment", "services")["containers"][0]))
        worker = of(others, "Deployment", "worker")["containers"][0]
        await stack.enter_async_context(running(world, worker))
        console = of(manifests(values(world, **more)), "Deployment", "console")["containers"][0]
        await stack.enter_async_context(running(world, console))
        await world.db.execute("select perdure.start('lookup', n::text, '{}') from generate_series(1, 5) n")
        await world.until(lambda: world.db.fetchval("select count(*) = 5 from perdure.finished"), "all done")
        assert set(world.counterparty.accepted.values()) == {1}
        await Container(world, of(found, "CronJob", "reconciliation")["containers"][0]).succeeded()
        runs = "select asked_by from perdure.reconciliation where ended_at is not null order by run"
        assert [each["asked_by"] for each in await world.db.fetch(runs)] == ["yesterday", "shop-reconciliation"]
        [relay] = await world.db.fetch("select * from perdure.relay")  # that of the services: the worker has none
        assert relay


async def test_processes_listen_on_ipv6_where_the_values_name_it(world: World) -> None:
    """`listen: "[::]"` is for a cluster without IPv4."""
    arguments = ["--proxy-header=X-Forwarded-User", "--proxy-from=::1", "--grant=*=look"]
    for kind in ("services", "console"):  # on this machine two pods can't have one port
        more = {"console": {"enabled": True, "port": free_port(), "arguments": arguments}}
        [spec] = of(manifests(values(world, **more, listen="[::]")), "Deployment", kind)["containers"]
        async with running(world, spec, PERDURE_CONSOLE_FOLDER=str(world.folder / "state")):
            pass


async def test_a_worker_of_the_worker_controller_polls_as_the_version_that_it_was_given(world: World) -> None:
    found = manifests(values(world, versioning={"mode": "controller"}, services={"enabled": False}))
    name, build = f"shop/{world.scope}", "1-abc"
    of_controller = {
        "TEMPORAL_ADDRESS": world.temporal.address,
        "TEMPORAL_NAMESPACE": "default",
        "TEMPORAL_DEPLOYMENT_NAME": name,
        "TEMPORAL_WORKER_BUILD_ID": build,
    }
    [spec] = of(found, "WorkerDeployment", "worker")["containers"]
    async with running(world, spec, **of_controller):
        await world.make_current(f"{name}:{build}")
        await world.db.execute("select perdure.start('lookup', 'a', '{}')")
        await world.ended("lookup", "a")
        described = await world.handle("lookup", "a").describe()
        version = described.raw_description.workflow_execution_info.versioning_info.deployment_version
        assert (version.deployment_name, version.build_id) == (name, build)
