"""A worker that is stopped before it runs ends without an error in its log."""

from __future__ import annotations

import asyncio

import pytest

from perdure._worker.worker import before
from tests.deadline import in_time


async def test_a_connection_that_is_given_up_leaves_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def connects() -> None:
        """As asyncpg does if it is cancelled before its transport is made."""
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().create_future().set_exception(ConnectionError())

    connecting = asyncio.create_task(connects())
    await asyncio.sleep(0)
    assert not await in_time(before(asyncio.create_task(asyncio.sleep(0, True)), connecting))
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
