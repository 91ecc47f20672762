"""A role that is limited to lifecycles sees these, whatever it and others were granted and however roles are named."""

from __future__ import annotations

import asyncio
import secrets

import asyncpg
import pytest

from perdure._store.schema.grants import ALONE, Grant, statements
from perdure._store.schema.kinds import Kind
from perdure.errors import InvalidSetting
from tests.apps.contracts import Booking
from tests.security.conftest import Roles, perdure
from tests.world import World

WAITING = """
    select exists (select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and not l.granted)"""


@pytest.fixture(autouse=True)
async def entities(world: World) -> None:
    """One entity of each of two lifecycles."""
    for lifecycle in ("repeat-inline", "lookup"):
        await world.client.start(lifecycle, "1", Booking())


async def grant(world: World, role: str, lifecycle: str) -> None:
    """Let a role read one lifecycle."""
    await perdure(world, "grant", role, "--as", "reader", "--lifecycle", lifecycle)


async def seen(roles: Roles, role: str) -> list[str]:
    """The lifecycles whose entities a role sees."""
    rows = await (await roles.connect(role)).fetch("select lifecycle from perdure.entity order by 1")
    return [row["lifecycle"] for row in rows]


async def test_roles_whose_long_names_begin_alike_see_what_each_was_granted(world: World, roles: Roles) -> None:
    one, two = [await roles.make("r" * 54) for _ in range(2)]
    await grant(world, one, "repeat-inline")
    await grant(world, two, "lookup")
    assert await seen(roles, one) == ["repeat-inline"]
    assert await seen(roles, two) == ["lookup"]


async def test_a_role_with_a_quotation_mark_shares_no_policy_with_the_one_without(world: World, roles: Roles) -> None:
    plain = f"ann_{secrets.token_hex(4)}"
    for name, lifecycle in ((plain, "repeat-inline"), (f'{plain}"', "lookup")):
        await grant(world, await roles.make_named(name), lifecycle)
    assert await seen(roles, plain) == ["repeat-inline"]
    assert await seen(roles, f'{plain}"') == ["lookup"]


async def test_a_limited_role_that_has_lost_its_policy_sees_no_more_after_a_grant_to_another(
    world: World, roles: Roles
) -> None:
    ann, bob = await roles.make("ann"), await roles.make("bob")
    await grant(world, ann, "lookup")
    policy = await world.db.fetchval(
        "select policyname from pg_policies where roles = $1 and tablename = 'entity'", [ann]
    )
    await world.db.execute(f'drop policy "{policy}" on perdure.entity')
    await grant(world, bob, "lookup")
    assert await seen(roles, ann) == []


async def test_a_renamed_role_keeps_its_limits_and_shares_none_with_a_new_role_of_the_old_name(
    world: World, roles: Roles
) -> None:
    old = await roles.make("ann")
    await grant(world, old, "lookup")
    now = await roles.rename(old)
    await grant(world, await roles.make_named(old), "repeat-inline")
    assert (await seen(roles, old), await seen(roles, now)) == (["repeat-inline"], ["lookup"])
    await grant(world, now, "repeat-inline")
    assert await seen(roles, now) == ["repeat-inline"]


async def test_roles_with_a_right_keep_seeing_everything_when_a_first_limited_role_turns_row_level_security_on(
    world: World, roles: Roles
) -> None:
    everything, limited = await roles.make("everything"), await roles.make("limited")
    await perdure(world, "grant", everything, "--as", "reader")
    await grant(world, limited, "lookup")
    assert await seen(roles, everything) == ["lookup", "repeat-inline"]


async def may_cancel(roles: Roles, role: str) -> list[str]:
    """The lifecycles whose entities a role may cancel."""
    connection, found = await roles.connect(role), []
    for lifecycle in ("repeat-inline", "lookup"):
        try:
            await connection.fetchval("select perdure.cancel($1, '1', 'ann', 'why')", lifecycle)
            found.append(lifecycle)
        except asyncpg.InsufficientPrivilegeError:
            pass
    return found


async def operate(world: World, role: str) -> None:
    """Let a role act on one lifecycle."""
    await perdure(world, "grant", role, "--as", "operator", "--lifecycle", "lookup")


async def test_a_role_that_is_made_anew_has_no_permission_of_the_one_that_was_dropped(
    world: World, roles: Roles
) -> None:
    name = await roles.make("ann")
    await perdure(world, "grant", name, "--as", "app")
    await world.db.execute(f"drop owned by {name}; drop role {name}; create role {name} login")
    await operate(world, name)
    assert await may_cancel(roles, name) == ["lookup"]


async def test_nor_has_it_one_as_a_member_of_a_limited_role(world: World, roles: Roles) -> None:
    name, operators = await roles.make("ann"), await roles.make("operators")
    await perdure(world, "grant", name, "--as", "app")
    await operate(world, operators)
    await world.db.execute(f"drop owned by {name}; drop role {name}; create role {name} login in role {operators}")
    assert await may_cancel(roles, name) == ["lookup"]


async def test_a_renamed_role_is_granted_its_permissions_again_and_leaves_none_to_its_old_name(
    world: World, roles: Roles
) -> None:
    old = await roles.make("ann")
    await perdure(world, "grant", old, "--as", "app", "--lifecycle", "repeat-inline")
    await operate(world, old)
    now = await roles.rename(old)
    assert await may_cancel(roles, now) == []
    await operate(world, now)
    assert await may_cancel(roles, now) == ["lookup"]
    await world.db.execute(f"alter role {now} rename to {old}")
    assert await may_cancel(roles, old) == []
    await world.db.execute(f"alter role {old} rename to {now}")


async def test_a_role_of_the_same_name_on_another_server_has_a_permission_once_it_was_granted_there(
    world: World, roles: Roles
) -> None:
    name = await roles.make("ann")
    await operate(world, name)
    await world.db.execute("update perdure.permission set role_oid = 1")  # as a dump from there leaves it
    assert await may_cancel(roles, name) == []
    await operate(world, name)
    assert await may_cancel(roles, name) == ["lookup"]


async def test_a_role_sees_what_any_of_its_purposes_lets_it_see(world: World, roles: Roles) -> None:
    limited, worker = await roles.make("ann"), await roles.make("worker")
    await grant(world, limited, "repeat-inline")
    await operate(world, limited)
    await perdure(world, "grant", worker, "--as", "worker")
    await grant(world, worker, "lookup")
    for role in (limited, worker):
        assert await seen(roles, role) == ["lookup", "repeat-inline"]
    finish = "delete from perdure.entity where lifecycle = 'repeat-inline'"  # as a worker does once an entity has ended
    assert await (await roles.connect(worker)).execute(finish) == "DELETE 1"


async def test_grants_to_one_role_wait_for_each_other(world: World, roles: Roles) -> None:
    name = await roles.make("ann")
    async with world.db.transaction():
        await world.db.execute(ALONE)
        first = await statements(world.db, Grant(name, Kind.READER, ("repeat-inline",)))
        second = asyncio.create_task(operate(world, name))
        await world.until(lambda: second.done() or world.db.fetchval(WAITING), "the second grant waits")
        for each in first:
            await world.db.execute(each)
    await second
    assert await seen(roles, name) == ["lookup", "repeat-inline"]


async def test_a_narrower_grant_replaces_that_of_its_own_purpose_alone(world: World, roles: Roles) -> None:
    name = await roles.make("ann")
    await perdure(world, "grant", name, "--as", "reader")
    await operate(world, name)
    assert await seen(roles, name) == ["lookup", "repeat-inline"]
    await grant(world, name, "lookup")
    assert await seen(roles, name) == ["lookup"]


async def rights(world: World, role: str) -> list[str]:
    """The rights of a role on tables, columns and functions."""
    return [
        row[0]
        for row in await world.db.fetch(
            """
            select a.privilege_type || ' ' || c.oid::regclass from pg_class c, aclexplode(c.relacl) a
            where a.grantee = $1::text::regrole
            union all select a.privilege_type || ' ' || c.oid::regclass || '.' || t.attname
            from pg_attribute t join pg_class c on c.oid = t.attrelid, aclexplode(t.attacl) a
            where a.grantee = $1::text::regrole
            union all select 'EXECUTE ' || p.oid::regprocedure from pg_proc p, aclexplode(p.proacl) a
            where a.grantee = $1::text::regrole
            order by 1""",
            role,
        )
    ]


async def mark_till(world: World) -> None:
    """Make a table and a function of an application, which it marks for readers and operators."""
    await world.db.execute(
        "create schema shop; create table shop.till (name text); create table shop.safe (name text); "
        "comment on table shop.till is 'perdure:reader Tills.'; "
        "create function shop.close_till() returns int language sql as 'select 1'; "
        "revoke all on function shop.close_till from public; "
        "comment on function shop.close_till is 'perdure:operator Closes it.'"
    )


@pytest.mark.parametrize("kind", ["app", "reader", "operator", "console", "callbacks"])
async def test_a_role_that_is_limited_later_has_the_rights_of_one_that_was_limited_at_first(
    world: World, roles: Roles, kind: str
) -> None:
    await mark_till(world)
    later, at_first = await roles.make(kind), await roles.make(kind)
    await perdure(world, "grant", later, "--as", kind)
    for role in (later, at_first):
        await perdure(world, "grant", role, "--as", kind, "--lifecycle", "lookup")
    assert await rights(world, later) == await rights(world, at_first)


async def test_a_role_whose_limited_callbacks_are_taken_back_signals_nothing(world: World, roles: Roles) -> None:
    name = await roles.make("web")
    await perdure(world, "grant", name, "--as", "callbacks", "--lifecycle", "lookup")
    await perdure(world, "grant", name, "--as", "callbacks")
    assert await rights(world, name) == []


async def test_a_role_that_is_limited_for_one_purpose_keeps_what_another_gives(world: World, roles: Roles) -> None:
    await mark_till(world)
    name = await roles.make("ann")
    for kind in ("worker", "operator"):
        await perdure(world, "grant", name, "--as", kind)
    had = await rights(world, name)
    await perdure(world, "grant", name, "--as", "reader")
    assert await rights(world, name) == had
    await grant(world, name, "lookup")
    assert set(had) <= set(await rights(world, name))


async def test_what_an_owner_gave_or_has_is_not_taken_back_with_a_grant(world: World, roles: Roles) -> None:
    await mark_till(world)
    name = await roles.make("ann")
    await world.db.execute(f"alter table shop.till owner to {name}; grant select on shop.safe to {name}")
    await world.db.execute(f"grant usage on schema shop to {name}")
    await perdure(world, "grant", name, "--as", "reader")
    await grant(world, name, "lookup")
    session = await roles.connect(name)
    for table in ("till", "safe"):
        assert await session.fetchval(f"select count(*) from shop.{table}") == 0


async def test_a_renamed_role_that_is_limited_loses_what_it_was_granted_under_its_old_name(
    world: World, roles: Roles
) -> None:
    old, at_first = await roles.make("ann"), await roles.make("bob")
    await perdure(world, "grant", old, "--as", "reader")
    now = await roles.rename(old)
    for role in (now, at_first):
        await grant(world, role, "lookup")
    assert await rights(world, now) == await rights(world, at_first)


@pytest.mark.parametrize("which", ["owner", "superuser", "bypassrls"])
async def test_a_role_for_which_no_limit_holds_is_given_none(world: World, roles: Roles, which: str) -> None:
    role = await roles.make("any", "" if which == "owner" else which)
    if which == "owner":
        await world.db.execute(f"alter schema perdure owner to {role}")
    await perdure(world, "grant", role, "--as", "reader")
    had = await rights(world, role)
    with pytest.raises(InvalidSetting, match=f"no limit holds for '{role}'"):
        await grant(world, role, "lookup")
    assert await rights(world, role) == had
    await world.db.execute("alter schema perdure owner to current_user")


async def test_the_owner_of_the_schema_loses_nothing_by_a_grant_after_it_was_renamed(
    world: World, roles: Roles
) -> None:
    owner = await roles.make("owner")
    await world.db.execute(f"alter schema perdure owner to {owner}")
    await perdure(world, "grant", owner, "--as", "worker")
    had, now = await rights(world, owner), await roles.rename(owner)
    await perdure(world, "grant", now, "--as", "reader")
    assert set(had) <= set(await rights(world, now))
    await world.db.execute("alter schema perdure owner to current_user")
