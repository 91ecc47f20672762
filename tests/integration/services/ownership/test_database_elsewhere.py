"""A database works with one Temporal namespace; and an id that a restore gave back is not taken for started."""

from __future__ import annotations

from datetime import timedelta

import pytest
import temporalio.client
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest

from perdure import PerdurePlugin
from perdure._wire.names import MIRROR
from perdure._worker.worker import new_worker
from perdure.errors import NotThisDatabase
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.world import World

KIND = "lookup-inline"


async def test_a_worker_of_another_namespace_does_not_start_on_it(world: World) -> None:
    async with world.worker(app):
        pass
    name = f"staging-{world.scope}"
    keep = Duration(seconds=int(timedelta(days=1).total_seconds()))
    service = world.temporal_client.workflow_service
    await service.register_namespace(RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=keep))

    async def refusal() -> str | None:
        plugin = PerdurePlugin(app, world.config)
        client = await temporalio.client.Client.connect(world.temporal.address, namespace=name, plugins=[plugin])
        try:
            await new_worker(client, world.config).run()
        except NotThisDatabase as refused:
            return str(refused)
        except RuntimeError as not_yet:  # the server's cache does not know the namespace for a second
            if "not found" not in str(not_yet).lower():
                raise
        return None

    why = await world.until(refusal, "refused", every=0.2)
    assert "works with another Temporal (namespace 'default'" in why
    assert f"here it is '{name}'" in why
    assert "--as copied" in why


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("first", ["epoch", "start"])
async def test_an_id_that_a_restore_gave_back_is_rejected_and_not_taken_for_started(
    world: World, first: str, closed: bool
) -> None:
    """The lost commits had given it to another entity, whose workflow Temporal remembers: its end is not this one's."""
    kind = KIND if closed else "escalate"

    async def parked() -> str | None:
        return (await world.client.status(kind, "a")).attention

    if not closed:
        world.counterparty.replies.append({"close": True, "accept": True})
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        if closed:
            await world.ended(kind, "a")
            await world.handle(kind, "a").result()
        else:
            await world.until(parked, "parked")
    # What a recovery to a point before that start leaves. Then the app starts, before or after the new epoch has begun.
    for table in ("ident", "entity", "finished", "effect", "transition"):
        await world.db.execute(f"delete from perdure.{table}")
    epoch = "update perdure.database set epoch = extract(epoch from clock_timestamp()) * 1e6"
    if first == "epoch":
        await world.db.execute(epoch)
    await world.client.start(kind, "a", Booking())
    if first == "start":
        await world.db.execute(epoch)

    async def rejected() -> str | None:
        return (await world.client.status(kind, "a")).rejected

    async with world.worker(app):
        why = await world.until(rejected, "rejected")
        assert "the id was given twice" in why
        if not closed:  # its run finds the id taken, ends, and leaves the entity alone
            await world.handle(kind, "a").signal(MIRROR, "a test")
            await world.handle(kind, "a").result()
            assert await world.db.fetchval("select count(*) from perdure.transition") == 1
        assert (await world.client.status(kind, "a")).attention == f"rejected: {why}"
    assert world.counterparty.accepted.total() == 1
