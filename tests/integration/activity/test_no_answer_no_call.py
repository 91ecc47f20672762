"""No answer from the database means no call: what is not on record must not leave."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from perdure import Attempt
from perdure._activity.execution import attempt
from perdure._store.postgres import Database, PostgresStore
from perdure._wire.orders import AttemptOrder, CallResult
from perdure._wire.writes import Fence, FenceOp, Write
from perdure.contracts.attempt import boot_clock
from perdure.servers.postgres import PostgresServer
from tests.apps.contracts import REGULAR, Booking, Ticket


class Quiet:
    """Surroundings that ask for nothing."""

    heartbeat_every = None
    stop_asked = False
    now = datetime.now(UTC)
    resources = None

    def boot_clock(self) -> float:
        """That of the machine."""
        return boot_clock()

    def heartbeat(self, progress: object) -> None:
        """Nobody listens."""

    def stopping(self) -> asyncio.Future[None]:
        """Never."""
        return asyncio.get_running_loop().create_future()


async def test_an_attempt_that_can_not_be_put_on_record_makes_no_call() -> None:
    calls: list[str] = []

    async def body(booking: Booking, the_attempt: Attempt) -> Ticket:
        calls.append(the_attempt.key)
        return Ticket(number=1)

    fence = Fence(op=FenceOp.BEGIN, key="lookup/a/do-lookup", effect="do-lookup", token="")
    write = Write(lifecycle="lookup", id="a", generation=0, version=1, workflow_id="lookup/a", fence=fence)
    order = AttemptOrder(write=write, input={"what": "x"}, number=1, timeout=2)
    with PostgresServer(durable=False) as server:
        database = Database(server.dsn())
        store = PostgresStore(await database.open())
        server.stop("immediate")
        report = await attempt(REGULAR["lookup"], body, order, store, Quiet())
        await store.close()
        await database.close()

    assert (report.result, report.recorded, calls) == (CallResult.NOT_DONE, False, [])
    assert "PostgreSQL" in (report.why or "")
