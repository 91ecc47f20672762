"""`perdure grant`: a role can do exactly what it was given; what an app needs is EXECUTE alone."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest
from typer.testing import CliRunner

from perdure import Client, Settings
from perdure._store import schema
from perdure.cli import cli
from perdure.errors import SchemaMismatch
from tests.world import World

START = "select perdure.start('booking', $1, '{}')"
OPERATORS = {
    "restart": "select perdure.restart('booking', 'a', 'ann', '')",
    "resolve": "select perdure.resolve('booking', 'a', 'do', 'done', 'ann', '')",
    "retry_rejected": "select perdure.retry_rejected(1, 'ann')",
    "drop_rejected": "select perdure.drop_rejected(1, 'ann')",
    "note": "select perdure.note('booking', 'a', '', '')",
}
NOBODYS = (
    "select perdure.apply_writes('[]')",
    "delete from perdure.ident",
    "update perdure.effect set status = 'done'",
)
DENIED = asyncpg.InsufficientPrivilegeError


@pytest.fixture
async def role(world: World) -> AsyncIterator[str]:
    """A role of the app's, to which nothing was granted. Its name needs quotes."""
    name = f"Shop app {secrets.token_hex(4)}"
    await world.db.execute(f'create role "{name}" login')
    yield name
    await world.db.execute(f'reset role; drop owned by "{name}"; drop role "{name}"')


async def perdure(world: World, *arguments: str) -> list[str]:
    """Run the command in this process; the lines that it wrote."""
    environment = {"PERDURE_DATABASE_URL": world.dsn}
    end = await asyncio.to_thread(CliRunner().invoke, cli, arguments, env=environment, catch_exceptions=False)
    assert end.exit_code == 0, end.output
    return end.stdout.splitlines()


async def _denied(world: World, *statements: str) -> bool:
    for statement in statements:
        with pytest.raises(DENIED):
            await world.db.execute(statement)
    return True


async def test_a_role_of_an_app_can_start_signal_cancel_and_look_and_nothing_else(world: World, role: str) -> None:
    await perdure(world, "grant", role, "--as", "app")
    await world.db.execute(f'set role "{role}"')
    assert await world.db.fetchval(START, "a") == "started"
    assert await world.db.fetchval("select perdure.signal('booking', 'a', 'hear')") == "sent"
    assert await world.db.fetchval("select perdure.cancel('booking', 'a', 'ann')") == "sent"
    assert await world.db.fetchval("select perdure.status('booking', 'a') ->> 'state'") == "starting"
    version = json.loads(await world.db.fetchval("select perdure.schema_version()::text"))
    assert [each["number"] for each in version["migrations"]] == [each.number for each in schema.migrations()]
    assert [each["name"] for each in version["functions"]] == [each.name for each in schema.functions()]
    assert await _denied(
        world, *NOBODYS, *OPERATORS.values(), "select from perdure.entity", "select from perdure.message"
    )


async def test_a_client_of_such_a_role_connects_starts_and_waits(world: World, role: str) -> None:
    await perdure(world, "grant", role, "--as", "app")
    url = world.dsn.replace("postgres@", f"{role.replace(' ', '%20')}@")
    async with Client.connect(Settings(database_url=url)) as client:
        assert (await client.start("booking", "a", {})).answer == "started"
        seen = await client.status("booking", "a")
        assert (seen.state, seen.final, seen.waits_for_delivery, seen.messages_waiting) == ("starting", False, True, 0)


async def test_a_client_of_such_a_role_refuses_a_schema_that_demands_newer_ones(world: World, role: str) -> None:
    await perdure(world, "grant", role, "--as", "app")
    await world.db.execute("insert into perdure.migration (number, name, oldest) values (9998, 'later', 9998)")
    url = world.dsn.replace("postgres@", f"{role.replace(' ', '%20')}@")
    with pytest.raises(SchemaMismatch, match="9998"):
        async with Client.connect(Settings(database_url=url)):
            pass


async def test_a_role_that_reads_can_change_nothing(world: World, role: str) -> None:
    await perdure(world, "grant", role, "--as", "reader")
    await world.db.execute(f'set role "{role}"')
    assert await world.db.fetchval("select count(*) from perdure.entity") == 0
    assert await world.db.fetchval("select count(*) from perdure.transition") == 0
    assert await _denied(world, *NOBODYS, *OPERATORS.values())


async def test_an_operator_may_set_things_right(world: World, role: str) -> None:
    await perdure(world, "grant", role, "--as", "operator")
    await world.db.execute(f'set role "{role}"')
    for verb, call in OPERATORS.items():
        with pytest.raises(asyncpg.PostgresError) as refusal:
            await world.db.execute(call)
        assert f"perdure.{verb}: " in str(refusal.value)  # not a matter of rights: there is no such entity
    assert await world.db.fetchval("select count(*) from perdure.entity") == 0
    assert await _denied(world, *NOBODYS, START.replace("$1", "'a'"), "select perdure.signal('booking', 'a', 'hear')")


async def test_the_sql_that_it_prints_is_what_it_ran_and_it_may_be_repeated(world: World, role: str) -> None:
    printed = await perdure(world, "grant", role, "--as", "operator")
    assert printed == await perdure(world, "grant", role, "--as", "operator")
    rights = "select has_function_privilege($1, 'perdure.status(text,text)', 'execute') "
    rights += "and has_function_privilege($1, 'perdure.retry_rejected(bigint,text,text,jsonb)', 'execute')"
    assert await world.db.fetchval(rights, role)
    await world.db.execute(f'drop owned by "{role}"')
    assert not await world.db.fetchval(rights, role)
    await world.db.execute("\n".join(printed))
    assert await world.db.fetchval(rights, role)


async def test_a_grant_is_made_and_repeated_beside_a_publication_of_all_tables(world: World, role: str) -> None:
    await world.db.execute("create publication everything for all tables")
    for _ in range(2):
        await perdure(world, "grant", role, "--as", "app", "--lifecycle", "order")
    granted = "select array_agg(lifecycle) from perdure.permission where role = $1"
    assert await world.db.fetchval(granted, role) == ["order"]


async def test_a_role_that_does_not_exist_is_named(world: World) -> None:
    with pytest.raises(ValueError, match="there is no role 'nobody; drop role shop' in this PostgreSQL"):
        await perdure(world, "grant", "nobody; drop role shop", "--as", "app")
