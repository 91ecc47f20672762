"""The console is ready while its pages can be read, and live whatever is away."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import pytest

from perdure.console.health import healthy
from perdure.console.sources import Sources
from perdure.servers.ports import free_port
from tests.command import perdure
from tests.deadline import until
from tests.world import World


def status(port: int, question: str) -> tuple[int, str]:
    """Status and body of a probe."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{question}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_it_is_not_ready_while_its_role_may_not_read_what_pages_show(world: World) -> None:
    role = f"desk_{world.scope}"
    await world.db.execute(f'create role "{role}" login')
    try:
        assert (await perdure(world, "grant", role, "--as", "console")).exit_code == 0
        port, url = free_port(), world.dsn.replace("postgres@", f"{role}@")
        config = world.config.model_copy(update={"health": f"127.0.0.1:{port}", "database_url": url})
        sources = Sources(config, None)

        async def answers(code: int) -> bool:
            return (await asyncio.to_thread(status, port, "ready"))[0] == code

        async with healthy(config, sources) as health:
            health.runs()
            await until(lambda: answers(200), "it is ready")
            await world.db.execute(f'drop owned by "{role}" cascade')
            await until(lambda: answers(503), "it is not ready any more")
        await sources.close()
    finally:
        await world.db.execute(f'drop owned by "{role}" cascade; drop role "{role}"')


@pytest.mark.parametrize("there", [True, False])
async def test_it_is_ready_when_the_database_can_be_read_and_live_in_any_case(world: World, there: bool) -> None:
    port = free_port()
    url = world.config.database_url if there else f"postgresql://127.0.0.1:{free_port()}/x"
    config = world.config.model_copy(update={"health": f"127.0.0.1:{port}", "database_url": url})
    sources = Sources(config, None)

    async def ask(question: str) -> tuple[int, str]:
        return await asyncio.to_thread(status, port, question)

    async def settled() -> tuple[int, str] | None:
        found = await ask("ready")
        return None if "nothing was read yet" in found[1] else found

    async with healthy(config, sources) as health:
        assert "it is starting" in (await ask("ready"))[1]
        health.runs()
        code, body = await until(settled, "the database was tried")
        assert code == (200 if there else 503), body
        assert ("pages" in body) is not there
        assert (await ask("live"))[0] == 200
    await sources.close()
