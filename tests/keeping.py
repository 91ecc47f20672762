"""A child process that is kept running, as a supervisor does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure._worker.child import Child
from tests.deadline import DEADLINE


@asynccontextmanager
async def kept(child: Child) -> AsyncIterator[None]:
    """Keep it running until the context ends; then it has ended."""
    keeping = asyncio.create_task(child.keep())
    try:
        yield
    finally:
        assert keeping.cancel(), "the process was kept until now"
        await asyncio.wait({keeping})  # it may just be starting a successor
        await child.end(DEADLINE)
