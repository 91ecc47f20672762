"""While a commit takes milliseconds, writes of many lifecycles share it; while it is quick, none waits."""

from __future__ import annotations

import asyncio
from statistics import median, quantiles

import pytest

from perdure._store.batch_wait import SLOW_COMMIT
from perdure._wire.writes import Gate
from perdure.contracts.outcomes import EffectStatus
from perdure.servers.postgres import PostgresServer
from perdure.testing.proxy import proxied
from tests.integration.store.stores import PATIENCE, Calls, a_begin, an_outcome, store_at


@pytest.mark.parametrize("commit", [0.005, 0.0], ids=["slow", "quick"])
async def test_a_hundred_lifecycles_in_flight_share_commits_that_are_slow(
    postgres: PostgresServer, dsn: str, commit: float
) -> None:
    """A lifecycle begins every 10 ms and makes two writes, a second apart: so 100 are in flight all the time.

    On a busy machine a commit is slow without any delay, and then they share it as well.
    """
    count = 300
    async with proxied(postgres.port) as proxy, store_at(dsn.replace(f":{postgres.port}/", f":{proxy.port}/")) as store:
        await store.write(a_begin("first", 1), patience=PATIENCE)
        proxy.delay(commit / 2)
        calls = Calls(store)

        async def one(number: int) -> None:
            await asyncio.sleep(number * 0.01)
            assert (await store.write(a_begin(number, 1), patience=PATIENCE)).gate is Gate.OPEN
            await asyncio.sleep(1)
            done = an_outcome(number, 2, EffectStatus.DONE, receipt={"number": number})
            assert (await store.write(done, patience=PATIENCE)).gate is Gate.OPEN

        await asyncio.gather(*(one(number) for number in range(count)))

    assert sum(calls.sizes) == 2 * count
    share = len(calls.sizes) / count
    if median(calls.seconds) < SLOW_COMMIT:
        assert share <= 2.0
    elif commit:
        assert share <= 0.5
    if quantiles(calls.seconds, n=10)[-1] < SLOW_COMMIT:  # the slowest tenth is shared by many
        assert share >= 0.5
