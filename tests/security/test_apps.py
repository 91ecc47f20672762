"""The role of one app gets nothing of another's: lifecycles, tenants, callbacks, and who did what is on record."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from typer.testing import CliRunner

from perdure import Client
from perdure.cli import cli
from perdure.errors import InvalidSetting, NotPermitted
from tests.security.conftest import Roles, perdure
from tests.world import World

DENIED = asyncpg.InsufficientPrivilegeError
THEIRS = {
    "start": "select perdure.start('payment', 'x', '{}')",
    "signal": "select perdure.signal('payment', 'p', 'hear')",
    "cancel": "select perdure.cancel('payment', 'p', 'dr. ann')",
    "status": "select perdure.status('payment', 'p')",
    "directly": "select perdure.start_any('payment', 'x', '{}')",
    "a message": "select perdure.send('signal', 'payment', 'p', 'hear', null, null, null, null)",
    "receipts": "select from perdure.effect",
    "permissions": "insert into perdure.permission values (session_user, 'app', null, null)",
    "tenants": "select perdure.tenants('payment', 'p')",
}


async def an_app(world: World, roles: Roles, *more: str) -> asyncpg.Connection[asyncpg.Record]:
    """A session of an app that was granted `order`, beside an entity of `payment`."""
    name = await roles.make("shop_app")
    await perdure(world, "grant", name, "--as", "app", "--lifecycle", "order", *more)
    await world.db.execute("select perdure.start('payment', 'p', '{}', tenant => 'north')")
    return await roles.connect(name)


@pytest.mark.parametrize("what", THEIRS)
async def test_the_role_of_an_app_reaches_no_lifecycle_of_another_app(world: World, roles: Roles, what: str) -> None:
    app = await an_app(world, roles)
    with pytest.raises(DENIED):
        await app.execute(THEIRS[what])


async def test_it_starts_signals_cancels_and_sees_its_own(world: World, roles: Roles) -> None:
    app = await an_app(world, roles)
    assert await app.fetchval("select perdure.start('order', 'a', '{}')") == "started"
    assert await app.fetchval("select perdure.signal('order', 'a', 'hear')") == "sent"
    assert await app.fetchval("select perdure.cancel('order', 'a', 'ann')") == "sent"
    assert await app.fetchval("select perdure.status('order', 'a') ->> 'state'") == "starting"
    feed = await app.fetch("select lifecycle, position from perdure.feed(null, 1)")
    assert [row["lifecycle"] for row in feed] == ["order"]
    assert await app.fetch("select lifecycle from perdure.feed($1)", feed[0]["position"]) == []


async def test_a_role_of_one_tenant_sees_and_starts_no_other(world: World, roles: Roles) -> None:
    app = await an_app(world, roles, "--tenant", "south")
    assert await app.fetchval("select perdure.start('order', 'a', '{}', tenant => 'south')") == "started"
    await world.db.execute("select perdure.start('order', 'b', '{}', tenant => 'north')")
    for statement in (
        "select perdure.start('order', 'c', '{}', tenant => 'north')",
        "select perdure.start('order', 'c', '{}')",
        "select perdure.status('order', 'b')",
        "select perdure.status('order', 'nothing')",
        "select perdure.cancel('order', 'b', 'ann')",
    ):
        with pytest.raises(DENIED):
            await app.execute(statement)
    assert [row["id"] for row in await app.fetch("select id from perdure.feed()")] == ["a"]


async def test_a_lifecycle_that_is_nowhere_is_not_granted(world: World, roles: Roles) -> None:
    name = await roles.make("shop_app")
    misspelt = ("grant", name, "--as", "app", "--lifecycle", "paymnet")
    assert await perdure(world, *misspelt), "an empty database can't tell"
    await world.db.execute("select perdure.start('payment', 'p', '{}')")
    with pytest.raises(InvalidSetting, match="no lifecycle is named 'paymnet'; did you mean 'payment'"):
        await perdure(world, *misspelt)
    declared = ("--app", "tests.apps.talking:app")
    assert await perdure(world, "grant", name, "--as", "app", "--lifecycle", "ring", *declared)
    with pytest.raises(InvalidSetting, match="no lifecycle is named 'rong'; did you mean 'ring'"):
        await perdure(world, "grant", name, "--as", "app", "--lifecycle", "rong", *declared)


async def test_set_role_takes_the_permissions_of_that_role_and_gives_none_of_others(world: World, roles: Roles) -> None:
    north, south, pool = [await roles.make(each) for each in ("north", "south", "pool")]
    for name in (north, south):
        await perdure(world, "grant", name, "--as", "app", "--lifecycle", "order", "--tenant", name)
    await world.db.execute(f"alter role {pool} noinherit; grant {north}, {south} to {pool}")
    session = await roles.connect(pool)
    with pytest.raises(DENIED):
        await session.execute("select perdure.start('order', 'a', '{}', tenant => $1)", north)
    await session.execute(f"set role {north}")
    assert await session.fetchval("select perdure.start('order', 'a', '{}', tenant => $1)", north) == "started"
    with pytest.raises(DENIED):
        await session.execute("select perdure.start('order', 'b', '{}', tenant => $1)", south)


async def test_a_role_of_one_tenant_keeps_its_entities_after_their_months_were_dropped(
    world: World, roles: Roles
) -> None:
    app = await an_app(world, roles, "--tenant", "south")
    for entity_id, tenant in (("a", "south"), ("b", "north")):
        await world.db.execute("select perdure.start('order', $1, '{}', tenant => $2)", entity_id, tenant)
    await world.db.execute("delete from perdure.entity; update perdure.ident set final = 'shipped'")
    assert await app.fetchval("select perdure.status('order', 'a') ->> 'state'") == "shipped"
    assert [row["id"] for row in await app.fetch("select id from perdure.feed()")] == ["a"]
    with pytest.raises(DENIED):
        await app.execute("select perdure.status('order', 'b')")


async def test_a_role_of_one_tenant_gets_no_event_of_an_entity_that_is_forgotten(world: World, roles: Roles) -> None:
    app = await an_app(world, roles, "--tenant", "south")
    await world.db.execute("select perdure.start('order', 'a', '{}', tenant => 'south')")
    await world.db.execute("delete from perdure.entity; update perdure.ident set final = 'shipped'")
    await world.db.execute("select perdure.forget('order', 'a', 'the officer')")
    assert await app.fetch("select id from perdure.feed()") == []
    assert await world.db.fetchval("select why from perdure.feed() where id = 'a'") == "forgotten"


async def test_a_reader_of_one_lifecycle_and_tenant_reads_no_other_row(world: World, roles: Roles) -> None:
    worker, reader = await roles.make("shop_worker"), await roles.make("reporter")
    await perdure(world, "grant", worker, "--as", "worker")
    await perdure(world, "grant", reader, "--as", "reader", "--lifecycle", "order", "--tenant", "south")
    for lifecycle, entity_id, tenant in (("order", "a", "south"), ("order", "b", "north"), ("payment", "c", "south")):
        await world.db.execute("select perdure.start($1, $2, '{}', tenant => $3)", lifecycle, entity_id, tenant)
    session = await roles.connect(reader)
    for table in ("ident", "entity", "transition", "outbox"):
        assert [row["id"] for row in await session.fetch(f"select id from perdure.{table}")] == ["a"]
    await world.db.execute("delete from perdure.entity")  # as if these had finished, and their months were dropped
    assert [row["id"] for row in await session.fetch("select id from perdure.transition")] == ["a"]
    for table in ("perdure.database", "perdure.permission", "perdure.relay"):
        with pytest.raises(DENIED):
            await session.execute(f"select from {table}")
    works = await roles.connect(worker)  # policies, once there, hide nothing from the roles that had rights before
    assert await works.fetchval("select count(*) from perdure.ident") == 3


async def test_a_grant_of_fewer_lifecycles_takes_the_others_back(world: World, roles: Roles) -> None:
    name = await roles.make("shop_app")
    await perdure(world, "grant", name, "--as", "app")
    app = await roles.connect(name)
    assert await app.fetchval("select perdure.start('payment', 'x', '{}')") == "started"
    assert await app.fetchval("select perdure.start('order', 'x', '{}')") == "started"
    await perdure(world, "grant", name, "--as", "app", "--lifecycle", "order")
    with pytest.raises(DENIED):
        await app.execute("select perdure.status('payment', 'x')")
    await perdure(world, "grant", name, "--as", "reader")
    assert await app.fetchval("select perdure.status('payment', 'x') ->> 'state'") == "starting"
    with pytest.raises(DENIED):
        await app.execute("select perdure.start('payment', 'y', '{}')")


async def test_the_authenticated_role_is_on_record_beside_the_name_that_it_gave(world: World, roles: Roles) -> None:
    name = await roles.make("ann")
    await perdure(world, "grant", name, "--as", "operator")
    await world.db.execute("select perdure.start('order', 'a', '{}')")
    operator = await roles.connect(name)
    await operator.execute("select perdure.note('order', 'a', 'dr. bob', 'looked')")
    [row] = await world.db.fetch("select made_by, session_role from perdure.transition where made_by is not null")
    assert dict(row) == {"made_by": "dr. bob", "session_role": name}
    shown = "\n".join(await perdure(world, "show", "order", "a"))
    assert "dr. bob" in shown
    assert name in shown


async def test_a_trigger_with_the_rights_of_its_owner_starts_for_a_role_with_no_permission(
    world: World, roles: Roles
) -> None:
    name = await roles.make("clerk")
    await world.db.execute(
        "create function begin_order() returns trigger language plpgsql security definer "
        "set search_path = public, pg_temp as $$ "
        "begin perform perdure.start('order', new.id, '{}'); return null; end $$; "
        "create trigger begins after insert on booking for each row execute function begin_order(); "
        f"grant insert on booking to {name}"
    )
    clerk = await roles.connect(name)
    await clerk.execute("insert into booking (id) values ('a')")
    assert await world.db.fetchval("select count(*) from perdure.ident where lifecycle = 'order'") == 1


async def test_who_reads_everything_reads_what_an_application_marks_and_who_is_limited_does_not(
    world: World, roles: Roles
) -> None:
    await world.db.execute(
        "create schema shop; create table shop.till (name text); create table shop.safe (name text); "
        "comment on table shop.till is 'perdure:reader Tills.'; "
        "comment on table shop.safe is 'perdure:readers No mark.'; "
        "create function shop.close_till() returns int language sql as 'select 1'; "
        "revoke all on function shop.close_till from public; "
        "comment on function shop.close_till is 'perdure:operator Closes it.'"
    )
    for kind, acts in (("reader", False), ("operator", True), ("console", True)):
        name, limited = await roles.make(kind), await roles.make(f"{kind}_of_orders")
        await perdure(world, "grant", name, "--as", kind)
        await perdure(world, "grant", limited, "--as", kind, "--lifecycle", "order")
        whole, some = await roles.connect(name), await roles.connect(limited)
        assert await whole.fetchval("select count(*) from shop.till") == 0
        if acts:
            assert await whole.fetchval("select shop.close_till()") == 1
        refused = [(whole, "select from shop.safe"), (whole, "insert into shop.till values ('x')")]
        refused += [(some, "select from shop.till"), (some, "select shop.close_till()")]
        refused += [] if acts else [(whole, "select shop.close_till()")]
        for connection, statement in refused:
            with pytest.raises(DENIED):
                await connection.execute(statement)


async def test_a_role_of_callbacks_can_call_back_and_nothing_else(world: World, roles: Roles) -> None:
    name = await roles.make("web")
    await world.db.execute(
        "create schema shop; create function shop.called_back(id text) returns text language sql security definer "
        "set search_path = shop, pg_temp as $$ select perdure.signal('order', id, 'called_back') $$; "
        "revoke all on function shop.called_back from public; "
        "comment on function shop.called_back is 'perdure:callbacks Pages call it.'; "
        "select perdure.start('order', 'a', '{}'); select perdure.start('payment', 'a', '{}')"
    )
    await perdure(world, "grant", name, "--as", "callbacks")
    web = await roles.connect(name)
    assert await web.fetchval("select shop.called_back('a')") == "sent"
    for statement in (*THEIRS.values(), "select perdure.signal('order', 'a', 'hear')"):
        with pytest.raises(DENIED):
            await web.execute(statement)
    await perdure(world, "grant", name, "--as", "callbacks", "--lifecycle", "payment")
    assert await web.fetchval("select perdure.signal('payment', 'a', 'reported')") == "sent"
    with pytest.raises(DENIED):
        await web.execute("select perdure.signal('order', 'a', 'hear')")


async def test_who_may_neither_read_nor_follow_is_told_the_grant(world: World, roles: Roles) -> None:
    callbacks = await roles.make("callbacks")
    await perdure(world, "grant", callbacks, "--as", "callbacks")
    pool = await asyncpg.create_pool(roles.url(callbacks), min_size=0, max_size=1)
    client = Client(pool)
    for read, grants in (
        (lambda: client.status("order", "b"), "--as app` or `--as reader`"),
        (lambda: client.list("order"), "--as reader`"),
        (lambda: anext(client.feed()), "--as reader` or `--as app`"),
        (lambda: client.feed_position(), "--as reader` or `--as app`"),
    ):
        with pytest.raises(NotPermitted, match=f": an owner of the schema runs `perdure grant {callbacks} {grants}$"):
            await read()
    await pool.close()


async def test_a_client_of_a_role_without_a_grant_is_told_which_it_needs(world: World, roles: Roles) -> None:
    stranger = await roles.make("stranger")
    with pytest.raises(NotPermitted, match=f"schema perdure: .* `perdure grant {stranger} --as app` or `--as reader`$"):
        async with Client.connect(world.config.model_copy(update={"database_url": roles.url(stranger)})):
            pass


async def test_a_role_without_a_right_is_told_which_and_sees_no_error_of_the_driver(world: World, roles: Roles) -> None:
    reader, stranger = await roles.make("reader"), await roles.make("stranger")
    await perdure(world, "grant", reader, "--as", "reader")
    async with Client.connect(world.config.model_copy(update={"database_url": roles.url(reader)})) as client:
        denied = f"of order/b: permission denied for function .*: an owner .* `perdure grant {reader} --as"
        with pytest.raises(NotPermitted, match=f"^start {denied} app`$"):
            await client.start("order", "b", {})
        with pytest.raises(NotPermitted, match=f"^restart {denied} operator`$"):
            await client.restart("order", "b", by="ann", note="x")
    for role, *words in (
        (reader, "rejected", "retry", "1", "--by", "ann"),
        (stranger, "rejected", "drop", "1", "--by", "ann"),
        (stranger, "rejected", "list"),
    ):
        environment = {**world.environment(), "PERDURE_DATABASE_URL": roles.url(role)}
        end = await asyncio.to_thread(CliRunner().invoke, cli, words, env=environment)
        assert end.exit_code == 1
        why = end.stderr or f"{end.exception} [{getattr(end.exception, 'code', None)}]\n"
        kind = "reader" if "list" in words else "operator"
        assert why.endswith(f"an owner of the schema runs `perdure grant {role} --as {kind}` [PERDURE-2105]\n"), words
        assert end.stderr or isinstance(end.exception, NotPermitted), words
