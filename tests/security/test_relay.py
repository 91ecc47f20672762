"""The role of a relay delivers and rejects with the rights of `perdure grant ROLE --as relay`, and with no others."""

from __future__ import annotations

import asyncio
import signal
import sys

import asyncpg
import pytest

from perdure.servers.ports import free_port
from tests.apps.bodies import app
from tests.deadline import in_time
from tests.security.conftest import Roles, perdure
from tests.world import World

OTHERS = (
    "select perdure.apply_writes('[]')",
    "update perdure.effect set status = 'done'",
    "insert into perdure.finished (lifecycle) values ('lookup')",
    "select perdure.start('lookup', 'b', '{}')",
    "select perdure.follow()",
)


async def test_a_relay_delivers_with_the_rights_of_its_role(world: World, roles: Roles) -> None:
    name = await roles.make("shop_relay")
    await perdure(world, "grant", name, "--as", "relay")
    log = world.folder / "relay.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure.cli", "services", "tests.apps.bodies:app", "relay", "gauges"),
            env={
                **world.environment(),
                "PERDURE_DATABASE_URL": roles.url(name),
                "PERDURE_METRICS": f"prometheus:127.0.0.1:{free_port()}",
            },
            stdout=file,
            stderr=file,
        )
    try:
        await world.db.execute("select perdure.start('lookup', n::text, '{}') from generate_series(1, 5) n")
        await world.db.execute("select perdure.start('lookup', 'wrong', '{\"seconds\": \"many\"}')")
        await world.db.execute("select perdure.start('nowhere', 'a', '{}')")
        await world.db.execute("select perdure.cancel('lookup', '5', 'ann')")
        async with world.worker(app, relay=False):
            await world.until(lambda: world.db.fetchval("select count(*) = 5 from perdure.finished"), "all done")
            rejected = "select exists (select from perdure.rejected where id = 'wrong')"
            await world.until(lambda: world.db.fetchval(rejected), "the start that can't be delivered is rejected")
            left = "select array_agg(id) = '{a}' from perdure.outbox"
            await world.until(lambda: world.db.fetchval(left), "what no relay knows is left")
        process.send_signal(signal.SIGTERM)
        assert await in_time(process.wait()) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert "permission denied" not in log.read_text(), log.read_text()
    session = await roles.connect(name)
    for statement in OTHERS:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await session.execute(statement)
