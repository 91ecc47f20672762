"""An app that traces with a provider of its own, and runs its lifecycles in a Temporal worker of its own.

Run as a process: starts one booking within a span `request`, waits for its end, prints that.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta

import temporalio.client
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from temporalio.contrib.opentelemetry import create_tracer_provider

from perdure import Client, PerdurePlugin
from perdure._worker.worker import leave, new_worker
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.running import running


async def main(kind: str) -> None:
    """Start it and see it end."""
    provider = create_tracer_provider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    plugin = PerdurePlugin(app)
    temporal_client = await temporalio.client.Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[plugin])
    async with (
        running(new_worker(temporal_client, plugin.config)),
        Client.connect(plugin.config, temporal_client=temporal_client, app=app) as client,
    ):
        with trace.get_tracer("shop").start_as_current_span("request"):
            handle = await client.start(kind, "a", Booking())
        print((await handle.wait(timeout=timedelta(minutes=1))).state)
        await temporal_client.get_workflow_handle(f"{plugin.config.scope}:{kind}/a").result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    leave(0)
