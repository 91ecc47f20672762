"""`Client`: start in the app's transaction, look, wait, list, and every refusal in a sentence."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from perdure import Client
from perdure.contracts import EffectStatus
from perdure.errors import (
    DatabaseUnavailable,
    InvalidEntity,
    InvalidInput,
    InvalidSetting,
    NoSuchEntity,
    NoWorkflow,
    PerdureError,
    SchemaMismatch,
    UnknownLifecycle,
)
from perdure.servers.ports import free_port
from tests.apps.bodies import app
from tests.apps.bookings import Escalate, LookupBooking
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE
from tests.world import World


async def test_a_start_is_committed_with_the_apps_transaction(world: World) -> None:
    async with world.worker(app):
        async with world.db.transaction():
            await world.db.execute("insert into booking (id) values ('a')")
            handle = await world.client.start(LookupBooking, "a", Booking(), connection=world.db)
            with pytest.raises(NoSuchEntity, match="there is no lookup/a: it was never started"):
                await handle.status()
        assert (await handle.wait(timeout=timedelta(seconds=DEADLINE))).state == "done"


async def test_an_open_transaction_of_the_app_does_not_hold_up_the_making_of_months(world: World) -> None:
    await world.db.execute("set lock_timeout = '500ms'")
    apps = await asyncpg.connect(world.dsn)
    async with apps.transaction():
        await world.client.start(LookupBooking, "a", Booking(), connection=apps)
        made = await world.db.fetchval("select perdure.make_months(30)")
    await apps.close()
    assert made >= 12  # `finished` and `transition` for half a year more, at least


async def test_a_start_is_rolled_back_with_the_apps_transaction(world: World) -> None:
    transaction = world.db.transaction()
    await transaction.start()
    handle = await world.client.start(LookupBooking, "a", Booking(), connection=world.db)
    await transaction.rollback()
    with pytest.raises(NoSuchEntity, match="or its transaction was rolled back"):
        await handle.status()
    for table in ("ident", "entity", "outbox", "transition"):
        assert await world.db.fetchval(f"select count(*) from perdure.{table}") == 0


async def test_starting_twice_starts_once_and_says_so(world: World) -> None:
    first = await world.client.start(LookupBooking, "a", Booking())
    second = await world.client.start(LookupBooking, "a", Booking(what="other"))
    assert (first.answer, second.answer, second.finished) == ("started", "open", False)
    async with world.worker(app):
        await first.wait(timeout=timedelta(seconds=DEADLINE))
    third = await world.client.start(LookupBooking, "a", Booking())
    assert (third.answer, third.finished) == ("finished", True)
    assert world.counterparty.accepted == {"lookup/a/do-lookup": 1}


async def test_the_status_is_there_from_the_instant_of_commit_without_a_worker(world: World) -> None:
    before = datetime.now(UTC)
    handle = await world.client.start(LookupBooking, "a", Booking(), tenant="t1")
    status = await handle.status()
    assert (status.state, status.final, status.generation, status.tenant) == ("starting", False, 0, "t1")
    assert status.waits_for_delivery
    assert status.effects == ()
    assert status.since is not None
    assert abs(status.since - before) < timedelta(minutes=1)


async def test_a_wait_that_takes_too_long_says_where_it_is(world: World) -> None:
    handle = await world.client.start(LookupBooking, "a", Booking())
    with pytest.raises(TimeoutError, match=r"lookup/a is not final after 0:00:00.100000: 'starting'"):
        await handle.wait(timeout=timedelta(seconds=0.1))


async def test_a_list_holds_what_its_filters_ask_for(world: World) -> None:
    for number in range(4):
        await world.client.start(LookupBooking, number, Booking())
    await world.client.start(Escalate, "other", Booking())
    since = "clock_timestamp() - make_interval(mins => 10 - id::int)"
    await world.db.execute(f"update perdure.entity set since = {since} where lifecycle = 'lookup'")
    await world.db.execute("update perdure.entity set state = 'doing', attention = 'look!' where id = '2'")

    async def ids(**filters: Any) -> list[str]:
        return [each.id for each in await world.client.list(LookupBooking, **filters)]

    assert await ids() == ["0", "1", "2", "3"]
    assert await ids(limit=2) == ["0", "1"]
    assert await ids(state="doing") == await ids(attention=True) == ["2"]
    assert await ids(before=datetime.now(UTC) - timedelta(minutes=8, seconds=30)) == ["0", "1"]
    assert [each.id for each in await world.client.list("escalate")] == ["other"]


async def test_filters_that_postgresql_cannot_take_are_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="the list of escalate: "):
        await world.client.list("escalate", state="pen\0ding")
    with pytest.raises(InvalidInput, match="the list of escalate: "):
        await world.client.list("escalate", limit=-1)
    with pytest.raises(InvalidInput, match=r"the status of 'esca\\x00late/a': "):
        await world.client.status("esca\0late", "a")


@pytest.mark.parametrize(
    ("entity_id", "why"),
    [
        ("", "the entity id is empty"),
        ("x" * 901, "has 901 bytes; 900 is the most"),
        ("a\nb", r"the entity id 'a\\nb' has characters that can't be seen"),
        ("a\0b", "has characters that can't be seen"),
        ("\ud800", "has characters that can't be seen"),
        (" a", "blanks at an end"),
    ],
)
async def test_an_id_that_can_not_be_used_is_refused_with_its_value(world: World, entity_id: str, why: str) -> None:
    with pytest.raises(InvalidEntity, match=why):
        await world.client.start(LookupBooking, entity_id, Booking())
    assert await world.db.fetchval("select count(*) from perdure.ident") == 0


@pytest.mark.parametrize("entity_id", ["x" * 900, "ä/ö ~1%#?", "7"])
async def test_an_id_of_the_apps_own_making_is_carried_through(world: World, entity_id: str) -> None:
    async with world.worker(app):
        handle = await world.client.start(LookupBooking, entity_id, Booking())
        assert (await handle.wait(timeout=timedelta(seconds=DEADLINE))).id == entity_id
    assert world.counterparty.accepted.total() == 1


@pytest.mark.parametrize("which", [LookupBooking, "lookup"])
async def test_an_input_that_does_not_validate_starts_nothing(world: World, which: Any) -> None:
    with pytest.raises(InvalidInput, match="lookup: the input does not fit: seconds: Input should be a valid number"):
        await world.client.start(which, "a", {"seconds": "many"})
    assert await world.db.fetchval("select count(*) from perdure.ident") == 0


async def test_an_input_that_no_json_can_hold_starts_nothing(world: World) -> None:
    client = Client(world.client._pool, config=world.config)
    with pytest.raises(InvalidInput, match="lookup/a: the input is no JSON"):
        await client.start("lookup", "a", {1, 2})
    with pytest.raises(InvalidInput, match="lookup/a: PostgreSQL can't store the input"):
        await client.start("lookup", "a", {"what": "nul \0"})


async def test_an_unknown_lifecycle_is_named_with_the_nearest_that_is_known(world: World) -> None:
    with pytest.raises(UnknownLifecycle, match="no lifecycle is named 'lokup'; did you mean 'lookup'"):
        await world.client.start("lokup", "a", Booking())


async def test_a_database_that_is_not_there_is_named_without_its_password(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr("perdure._store.postgres.Database.open.__kwdefaults__", {"patience": 0.1})
    gone = world.config.model_copy(update={"database_url": f"postgresql://me:secret@127.0.0.1:{free_port()}/app"})
    with pytest.raises(DatabaseUnavailable, match=r"no PostgreSQL answers at postgresql://me@127.0.0.1:\d+/app") as no:
        async with Client.connect(gone):
            pass
    assert "secret" not in str(no.value)


async def test_a_database_of_a_wrong_name_is_a_wrong_setting(world: World) -> None:
    wrong = world.config.model_copy(update={"database_url": world.postgres.dsn("no_such_database")})
    with pytest.raises(InvalidSetting, match=r'PERDURE_DATABASE_URL=.*database "no_such_database" does not exist'):
        async with Client.connect(wrong):
            pass


async def test_a_database_without_the_schema_names_the_way_out(world: World) -> None:
    bare = world.config.model_copy(update={"database_url": world.postgres.dsn("template1")})
    with pytest.raises(SchemaMismatch, match="the database 'template1' has no perdure schema: run `perdure migrate`"):
        async with Client.connect(bare):
            pass


@pytest.mark.parametrize("update", ["resolve", "retry", "cancel"])
async def test_a_method_that_needs_temporal_raises_an_error_without_it(world: World, update: str) -> None:
    client = Client(world.client._pool, config=world.config)
    await client.start(LookupBooking, "a", Booking())
    more = {"outcome": "done", "note": ""} if update == "resolve" else {}
    with pytest.raises(PerdureError, match="needs Temporal: give the client temporal_client="):
        await getattr(client, update)(LookupBooking, "a", by="ann", **more)


async def test_sql_of_its_own_is_refused_with_a_hint_too(world: World) -> None:
    for call in (
        "perdure.start('Look up', 'a', '{}')",
        "perdure.start('lookup', E'a\\n', '{}')",
        "perdure.signal('lookup', 'a', '__temporal')",
    ):
        with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
            await world.db.execute(f"select {call}")
        assert refused.value.hint


async def test_a_request_of_a_person_that_can_not_be_sent_is_refused_before_anything_is_sent(world: World) -> None:
    await world.client.start("lookup", "a", Booking())
    client, done = world.client, EffectStatus.DONE
    for call, why in (
        (client.cancel("lookup", "a", by=""), "by: String should have at least 1 character"),
        (client.retry("lookup", "a", by="a" * 201), "by: String should have at most 200 characters"),
        (client.send_again("lookup", "a", by="\ud800", note="x"), "by: "),
        (client.resolve("lookup", "a", done, by="ann", note="x" * 2001), "note: String should have at most"),
        (client.resolve("lookup", "a", done, by="ann", note="x", receipt=object()), "the receipt is no JSON: "),
        (client.resolve("lookup", "a", done, by="ann", note="x", receipt=b"\xff"), "the receipt is no JSON: "),
        (client.resolve("lookup", "a", done, by="ann", note="x", receipt=["\ud800"]), "the receipt is no JSON: "),
    ):
        with pytest.raises(InvalidInput, match=f"^lookup/a: {why}"):
            await call


@pytest.mark.parametrize(("entity_id", "shown"), [("$(reboot)", "lookup '$(reboot)'"), ("-7", "-- lookup -7")])
async def test_the_command_that_an_error_names_is_quoted_for_a_shell(world: World, entity_id: str, shown: str) -> None:
    await world.client.start("lookup", entity_id, Booking())
    await world.db.execute("delete from perdure.outbox")
    with pytest.raises(NoWorkflow, match=re.escape(f"`perdure retry {shown}` starts it again")):
        await world.client.retry("lookup", entity_id, by="ann")
