"""Roles of their own for each test, and connections that hold nothing but such a role."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from urllib.parse import quote

import asyncpg
import pytest
from typer.testing import CliRunner

from perdure.cli import cli
from tests.world import World


class Roles:
    """Makes login roles to which nothing is granted, and connects as them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._names: list[str] = []
        self._connections: list[asyncpg.Connection[asyncpg.Record]] = []

    async def make(self, what: str, options: str = "") -> str:
        """A role with a name of its own, which begins with `what`."""
        return await self.make_named(f"{what}_{secrets.token_hex(4)}", options)

    async def make_named(self, name: str, options: str = "") -> str:
        """A role with this name."""
        await self._world.db.execute(f"create role {quoted(name)} login {options}")
        self._names.append(name)
        return name

    async def rename(self, name: str) -> str:
        """Give a role another name."""
        self._names[self._names.index(name)] = now = f"renamed_{secrets.token_hex(4)}"
        await self._world.db.execute(f"alter role {quoted(name)} rename to {now}")
        return now

    def url(self, name: str) -> str:
        """The URL by which a role connects."""
        return self._world.dsn.replace("postgres@", f"{quote(name)}@")

    async def connect(self, name: str) -> asyncpg.Connection[asyncpg.Record]:
        """A session of that role, closed when the test ends."""
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(self.url(name))
        self._connections.append(connection)
        return connection

    async def drop(self) -> None:
        """End the workers and sessions, and drop the roles with what they own."""
        for worker in self._world.workers:
            await worker.end()
        for connection in self._connections:
            await connection.close()
        for name in self._names:
            await self._world.db.execute(f"drop owned by {quoted(name)} cascade")
        for name in self._names:
            await self._world.db.execute(f"drop role {quoted(name)}")


def quoted(name: str) -> str:
    """A role as SQL names it."""
    return '"' + name.replace('"', '""') + '"'


async def perdure(world: World, *arguments: str, url: str | None = None) -> list[str]:
    """Run the command in this process; the lines that it wrote."""
    environment = {**world.environment(), "PERDURE_DATABASE_URL": url or world.dsn}
    end = await asyncio.to_thread(CliRunner().invoke, cli, arguments, env=environment, catch_exceptions=False)
    assert end.exit_code == 0, end.output
    return end.stdout.splitlines()


@pytest.fixture
async def roles(world: World) -> AsyncIterator[Roles]:
    """Login roles for one test."""
    made = Roles(world)
    yield made
    await made.drop()
