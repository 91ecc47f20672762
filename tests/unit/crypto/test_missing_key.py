"""A worker without the key gives up no effect, and a Schedule whose key is gone is made anew."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
import temporalio.client
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from perdure import Done, Effect, Lifecycle, Repeat, RetryPolicy, Settings, state
from perdure._crypto.codec import Codec, encrypting
from perdure._crypto.keyring import Keyring
from perdure._reconcile.schedule import _decoded
from perdure._wire.reconciliation import ReconciliationRequest
from perdure.errors import UnknownKey
from perdure.testing import rehearse
from perdure.testing.server_activities import Failed
from perdure.testing.stage import Stage
from tests.apps.contracts import Booking, Ticket

ONCE = Effect[Booking, Ticket](
    "once", timeout=timedelta(seconds=1), doubt=Repeat(), retry=RetryPolicy(maximum_attempts=1)
)


class Way(StrEnum):
    """Where it is."""

    BEGUN = "begun"
    DONE = state("done", final=True)
    GIVEN_UP = state("given-up", final=True)


@workflow.defn(name="once")
class Once(Lifecycle[Booking, Way]):
    """Gives up after one attempt."""

    effects = (ONCE,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Try once."""
        ended = await self.perform(ONCE, booking)
        await self.enter(Way.DONE if isinstance(ended, Done) else Way.GIVEN_UP)


async def test_an_attempt_whose_worker_has_not_the_key_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    unread, execute = iter(range(3)), Stage._execute

    async def by_a_worker_without(stage: Stage, contract: Any, call: Any, pause: Any) -> Any:
        if contract is not ONCE or next(unread, None) is None:
            return await execute(stage, contract, call, pause)
        error = ApplicationError("Failed decoding arguments")  # as the SDK says it
        error.__cause__ = UnknownKey("it is encrypted with the key 'b', and this process has a")
        return Failed(error)

    monkeypatch.setattr(Stage, "_execute", by_a_worker_without)
    seen = await rehearse(Once, Booking(), {ONCE: [Ticket(number=1)]})
    assert (seen.end, seen.calls(ONCE), next(unread, None)) == (Way.DONE, 1, None)


async def test_a_schedule_that_was_made_with_a_lost_key_differs_from_the_one_that_is_wanted() -> None:
    converter = encrypting(pydantic_data_converter, Settings())
    temporal_client = temporalio.client.Client(None, data_converter=converter)  # type: ignore[arg-type]
    args = [Codec(Keyring({"lost": b"1" * 32})).encrypted(Payload(data=b"x"))]
    assert (
        await _decoded(temporal_client, args)
        == "something else"
        != await _decoded(temporal_client, [ReconciliationRequest(by="schedule")])
    )
