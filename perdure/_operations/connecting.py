"""A connection to Temporal for commands that only read: without it, they show the rest and report its absence."""

from __future__ import annotations

import asyncio
import logging

from temporalio.client import Client

from perdure._services.credentials import Renewal
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect_renewed
from perdure.app import App
from perdure.errors import TemporalUnavailable
from perdure.logs import long_wait
from perdure.settings import Settings

log = logging.getLogger("perdure.operations")

PATIENCE = 5.0
"""Seconds until it counts as away."""


async def temporal_client(config: Settings, app: App | None = None) -> Client | TemporalUnavailable:
    """A client of the server that TEMPORAL_* names; or why there is none."""
    with long_wait(log, "waits for Temporal"):
        found = await renewed_client(config, app)
    return found if isinstance(found, TemporalUnavailable) else found[0]


async def renewed_client(config: Settings, app: App | None = None) -> tuple[Client, Renewal] | TemporalUnavailable:
    """The same for a process that goes on: the service connects the client anew when its certificates change, once it
    is started."""
    try:
        return await asyncio.wait_for(connect_renewed(PerdurePlugin(app or App([], []), config)), PATIENCE)
    except TemporalUnavailable as error:
        return error
    except TimeoutError:
        return TemporalUnavailable(f"no Temporal server answered within {PATIENCE:g} s: set TEMPORAL_ADDRESS")
