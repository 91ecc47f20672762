"""A database works with one Temporal namespace; and an id that a restore gave back is not taken for started."""

from __future__ import annotations

from datetime import timedelta

import temporalio.client
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest

from perdure import PerdurePlugin
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


async def test_an_id_that_a_restore_gave_back_is_rejected_and_not_taken_for_started(world: World) -> None:
    """The lost commits had given it to another entity, whose workflow Temporal remembers: its end is not this one's."""
    async with world.worker(app):
        await world.client.start(KIND, "a", Booking())
        await world.ended(KIND, "a")
        await world.handle(KIND, "a").result()
        # What a recovery to a point before that start leaves, and what its new epoch says.
        for table in ("ident", "finished", "effect", "transition"):
            await world.db.execute(f"delete from perdure.{table}")
        await world.db.execute(
            "update perdure.database set epoch = extract(epoch from clock_timestamp() + interval '1 s') * 1e6"
        )
        await world.client.start(KIND, "a", Booking())

        async def rejected() -> str | None:
            return (await world.client.status(KIND, "a")).rejected

        why = await world.until(rejected, "rejected")
        assert "the id was given twice" in why
        assert (await world.client.status(KIND, "a")).attention == f"rejected: {why}"
    assert world.counterparty.accepted.total() == 1
