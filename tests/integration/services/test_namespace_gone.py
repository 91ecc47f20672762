"""A problem of a whole namespace rejects no row, and all are delivered afterwards."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import DeleteNamespaceRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure import PerdurePlugin
from perdure._services.ownership.exchange import Exchange
from perdure._services.relay import Relay
from perdure._store.postgres import Database
from perdure._store.sql import shared
from perdure.errors import TemporalUnavailable
from perdure.logs import FIELDS
from tests.apps.listening import app
from tests.world import World

pytestmark = pytest.mark.world(app)

KIND = "listener"
BIND = "update perdure.database set mark = 'a', scope = $1, namespace = $1, namespace_id = $2"
START = "select perdure.start('listener', $1, '{}')"
SIGNAL = "select perdure.signal('listener', $1, 'add', '1')"
NO_NAMESPACE = "Temporal has no namespace '{}', or it was deleted: create it again, or correct TEMPORAL_NAMESPACE"


async def create(world: World) -> None:
    """The namespace of this test."""
    request = RegisterNamespaceRequest(
        namespace=world.scope, workflow_execution_retention_period=Duration(seconds=86400)
    )
    await world.temporal_client.workflow_service.register_namespace(request)


async def rounds(world: World, relay: Relay, problem: str | None) -> None:
    """Make rounds until one has no problem, or the one that is waited for."""

    async def came() -> bool:
        try:
            await relay.once()
        except TemporalUnavailable as error:
            return problem is not None and problem in str(error)
        return problem is None and not await world.db.fetchval("select count(*) from perdure.outbox")

    await world.until(came, problem or "all delivered", every=0.2)


async def test_while_the_namespace_is_gone_nothing_is_rejected_and_then_all_is_delivered(world: World) -> None:
    await create(world)
    client = await Client.connect(
        world.temporal.address, namespace=world.scope, plugins=[PerdurePlugin(app, world.config)], lazy=True
    )
    database = Database(world.dsn)
    relay = Relay(await database.open(), client, app, world.config)
    exchange = Exchange(client, world.config)
    try:
        await world.db.execute(START, "before")
        await rounds(world, relay, None)
        await bound(world, client, exchange)
        await world.temporal_client.operator_service.delete_namespace(DeleteNamespaceRequest(namespace=world.scope))
        handle = client.get_workflow_handle(f"{world.scope}:{KIND}/none")

        # The one while it is being deleted, which may be over before it is seen; the other afterwards.
        for answer in ("invalid state", "is not found"):

            async def answers(answer: str = answer) -> bool:
                try:
                    await handle.signal("x", rpc_timeout=timedelta(seconds=5))
                except RPCError as error:
                    return answer in error.message or "is not found" in error.message
                return False

            await world.until(answers, f"Temporal says: {answer}", every=0.05)
            for number in range(3):
                await world.db.execute(START, f"{answer} {number}")
                await world.db.execute(SIGNAL, "before")
                await rounds(world, relay, NO_NAMESPACE.format(world.scope))
        assert await world.db.fetchval("select count(*) from perdure.rejected") == 0
        assert await world.db.fetchval("select count(*) from perdure.entity where attention is not null") == 0
        await world.db.execute("delete from perdure.outbox where id = 'before'")  # its run went with the namespace

        await create(world)
        await world.db.execute("update perdure.outbox set not_before = now()")
        await rounds(world, relay, None)
        for answer in ("invalid state", "is not found"):
            for number in range(3):
                await client.get_workflow_handle(f"{world.scope}:{KIND}/{answer} {number}").describe()
        await bound(world, client, exchange)
    finally:
        await database.close()


async def bound(world: World, client: Client, exchange: Exchange) -> None:
    """Bind the database to the namespace as another process does; a worker that runs all the time accepts that."""
    known = await Exchange(client, world.config).namespace_id()
    await world.db.execute(BIND, world.scope, known)
    row = await world.db.fetchrow(shared("database"))
    assert row is not None
    await exchange.check_binding(row)
    await world.db.execute("update perdure.database set mark = null")


async def test_a_namespace_that_is_missing_is_said_once_in_plain_words(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    client = await Client.connect(
        world.temporal.address, namespace="no-such", plugins=[PerdurePlugin(app, world.config)], lazy=True
    )
    database = Database(world.dsn)
    relay = Relay(await database.open(), client, app, world.config)
    await world.db.execute(START, "a")
    with caplog.at_level(logging.WARNING, "perdure"):
        await relay.start()

        async def tried() -> bool:
            return bool(await world.db.fetchval("select tries >= 3 from perdure.outbox"))

        await world.until(tried, "tried three times")
        await relay.stop()
    await database.close()
    said = [str(getattr(record, FIELDS, {}).get("why")) for record in caplog.records]
    assert [each for each in said if "namespace" in each] == [
        NO_NAMESPACE.format("no-such") + ". All that waits is kept"
    ], caplog.text
