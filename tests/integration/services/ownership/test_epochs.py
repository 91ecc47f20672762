"""After a restore or a failover, each open effect goes through its doubt policy, also if it has no record."""

from __future__ import annotations

import asyncio
import shutil

import asyncpg
import pytest

from infra.clusters import Cluster, base_backup, copy_files, put_back, recover_to
from perdure import OperatorRequest
from perdure._services.ownership.claiming import What
from perdure._wire.carried import CARRIED, Carried
from perdure.contracts import EffectStatus
from perdure.servers.postgres import PostgresServer
from tests.apps.bodies import app
from tests.integration.services.ownership.conftest import Worlds
from tests.integration.services.ownership.test_copies import claimed, started
from tests.world import World

ASKED = ("lookup", "lookup-inline")
PARKED = ("escalate", "escalate-inline")
EACH = 12
"""Four kinds: some fifty effects."""


async def test_after_a_recovery_to_before_fifty_effects_none_is_sent_twice(
    source: PostgresServer, worlds: Worlds
) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        pass
    ids = [f"{number}" for number in range(EACH)]
    backup = base_backup(source, worlds.folder, "recovered")
    for kind in (*ASKED, *PARKED):
        await started(world, *(f"{each}-{kind}" for each in ids), kind=kind)
    point = f"before-{world.scope}"
    await world.db.fetchval("select pg_create_restore_point($1)", point)
    async with world.worker(app):
        for kind in (*ASKED, *PARKED):
            for each in ids:
                await world.ended(kind, f"{each}-{kind}")
                await world.completed(kind, f"{each}-{kind}")
    assert world.counterparty.accepted.total() == 4 * EACH
    await world.db.execute("select pg_switch_wal()")

    recover_to(backup, source, point)
    worlds.running(backup)
    again = await worlds.beside(world, backup)
    assert await again.db.fetchval("select count(*) from perdure.effect") == 0
    await again.until(lambda: again.db.fetchval("select not pg_is_in_recovery()"), "the recovery is over")
    async with again.worker(app):
        for kind in ASKED:
            for each in ids:
                assert await again.ended(kind, f"{each}-{kind}") == "done"

        async def all_parked() -> bool:
            count = "select count(*) from perdure.entity where attention is not null and lifecycle = any($1)"
            return bool(await again.db.fetchval(count, list(PARKED)) == 2 * EACH)

        await again.until(all_parked, "what nobody can know waits for a person")
        why = await again.db.fetchval("select attention from perdure.entity limit 1")
        assert "no record of it, and the database was restored" in why
        await started(again, "new", kind="escalate")
        assert await again.ended("escalate", "new") == "done", "what is new is in no doubt"
        runs = [await again.handle("escalate", each).describe() for each in ("0-escalate", "new")]
        carried = [await each.memo_value(CARRIED, type_hint=Carried) for each in runs]
        assert [each.gaps for each in carried] == [True, False], "for the next restore"
        receipt = {"number": 1}
        await again.client.resolve("escalate", "0-escalate", EffectStatus.DONE, by="ann", note="seen", receipt=receipt)
        assert await again.ended("escalate", "0-escalate") == "done"
    assert set(world.counterparty.accepted.values()) == {1}
    assert world.counterparty.accepted.total() == 4 * EACH + 1
    assert sum(world.counterparty.asked.values()) >= 2 * EACH


async def test_a_lagging_standby_takes_over_at_once_and_what_it_lost_is_looked_up(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._wire.keeper.SILENCE", 3600)  # the worker has come along, so nobody waits
    primary = worlds.running(Cluster(worlds.folder / "primary", durable=False))
    world = await worlds.on(primary)
    standby = worlds.running(base_backup(primary, worlds.folder, "standby", standby=True))
    name, other = world.dsn.rpartition("/")[2], world.counterparty
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    either = f"postgresql://postgres@{hosts}/{name}?target_session_attrs=primary"
    world.config = world.config.model_copy(update={"database_url": either})
    other.replies_to = {each: [{"accept": True, "close": True}] for each in ("lost", "lost-inline")}
    other.replies_to["refused"] = [{"refused": "no"}]
    async with world.worker(app):
        await started(world, "refused", kind="escalate")
        await world.is_in("escalate", "refused", "failed")
    await started(world, "lost", kind="lookup")
    await started(world, "lost-inline", kind="lookup-inline")
    replica = await asyncpg.connect(standby.dsn(name))
    await world.until(lambda: replica.fetchval("select count(*) = 2 from perdure.outbox"), "the standby knows of them")
    await replica.execute("alter system set primary_conninfo = ''")
    await replica.execute("select pg_reload_conf()")
    await world.until(lambda: replica.fetchval("select count(*) = 0 from pg_stat_wal_receiver"), "it lags from now on")
    await replica.close()

    other.before_replying.shut()
    async with world.worker(app):
        await other.has_accepted(2)
        await asyncio.to_thread(primary.kill)
        await asyncio.to_thread(standby.promote)
        other.before_replying.open()
        world.db = await asyncpg.connect(standby.dsn(name))
        for kind, entity_id in (("lookup", "lost"), ("lookup-inline", "lost-inline")):
            await ended(world, kind, entity_id)
        why = "select attempts = 1 and status = 'done' from perdure.effect where key like '%lost%'"
        assert [row[0] for row in await world.db.fetch(why)] == [True, True]
        # It waited meanwhile, and what it does now was certainly not done before.
        await world.update("escalate", "refused", "retry_now", OperatorRequest(by="ann", note="now"))
        await ended(world, "escalate", "refused")
        await started_by_sql(world, "new", kind="escalate")
        await ended(world, "escalate", "new")
        assert await world.db.fetchval("select epoch > 0 and timeline = 2 from perdure.database")
    assert set(other.accepted.values()) == {1}
    assert set(other.asked) == {"lookup/lost/do-lookup", "lookup-inline/lost-inline/do-lookup-inline"}


async def ended(world: World, kind: str, entity_id: str) -> None:
    """Wait until it is done, as the test's own connection sees it."""
    final = "select final from perdure.ident where lifecycle = $1 and id = $2"
    await world.until(lambda: world.db.fetchval(final, kind, entity_id), f"{kind}/{entity_id} ended")
    assert await world.db.fetchval(final, kind, entity_id) == "done"


async def test_files_that_were_put_back_stand_still_until_it_is_said(worlds: Worlds) -> None:
    server = worlds.running(Cluster(worlds.folder / "own", durable=False))
    world = await worlds.on(server)
    async with world.worker(app):
        await worlds.marked_anew(world)
    await started(world, "lost", kind="lookup")
    await asyncio.to_thread(server.stop)
    files = worlds.folder / "kept"
    await asyncio.to_thread(copy_files, server, files)
    await asyncio.to_thread(server.start)
    world.db = await asyncpg.connect(world.dsn)
    async with world.worker(app):
        await world.ended("lookup", "lost")
        await world.completed("lookup", "lost")
        await worlds.marked_anew(world)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(put_back, server, files)
    await asyncio.to_thread(server.start)
    world.db = await asyncpg.connect(world.dsn)
    assert "an older state of it or of Temporal was put back" in await worlds.refused(world)
    assert "began" in await claimed(world, What.RESTORED)
    async with world.worker(app):
        assert await world.ended("lookup", "lost") == "done"
    assert world.counterparty.accepted.total() == 1
    assert world.counterparty.asked.total() >= 1
    shutil.rmtree(files)


async def test_after_a_restart_of_postgresql_all_goes_on_by_itself(worlds: Worlds) -> None:
    server = worlds.running(Cluster(worlds.folder / "restarted", durable=False))
    world = await worlds.on(server)
    async with world.worker(app):
        for number in range(3):
            await asyncio.to_thread(server.restart, "immediate")
            world.db = await asyncpg.connect(world.dsn)
            await started_by_sql(world, str(number))
            await world.ended("repeat", str(number))
        assert await world.db.fetchval("select epoch from perdure.database") == 0
    assert world.counterparty.accepted.total() == 3


async def started_by_sql(world: World, entity_id: str, kind: str = "repeat") -> None:
    """Commit a booking by SQL: the client's pool may hold connections that are gone."""
    await world.db.execute("insert into booking (id) values ($1)", entity_id)
    await world.db.execute("select perdure.start($1, $2, '{}')", kind, entity_id)
