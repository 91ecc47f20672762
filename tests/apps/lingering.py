"""An app whose worker does not get its services to stop, as if PostgreSQL held them up for good."""

from __future__ import annotations

import asyncio

from perdure._services.services import Services
from tests.apps.bodies import app as app


async def _lingering(self: Services) -> None:
    await asyncio.Event().wait()


Services.stop = _lingering  # type: ignore[method-assign]
