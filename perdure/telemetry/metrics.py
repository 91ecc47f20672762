"""Records metrics by a meter of Temporal's SDK, so that one exporter sends the SDK's metrics and Perdure's."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.runtime import Runtime

from perdure.telemetry.names import COMMIT_SECONDS, COMMIT_WRITES, Metric

Out = TypeVar("Out")


def meter_of(client: Client) -> MetricMeter | None:
    """The meter of a client's runtime; None if no metrics are configured."""
    meter = (client.service_client.config.runtime or Runtime.default()).metric_meter
    return None if meter is MetricMeter.noop else meter


def count(meter: MetricMeter, metric: Metric, by: int = 1, **labels: str) -> None:
    """Add to a counter."""
    meter.create_counter(metric.name, metric.meaning).add(by, labels)


def record(meter: MetricMeter, metric: Metric, value: float, **labels: str) -> None:
    """Record a value in a histogram."""
    meter.create_histogram_float(metric.name, metric.meaning, metric.unit).record(value, labels)


def show(meter: MetricMeter, metric: Metric, value: float, **labels: str) -> None:
    """Set a gauge."""
    meter.create_gauge_float(metric.name, metric.meaning, metric.unit).set(value, labels)


def measured(
    commit: Callable[[Sequence[str]], Awaitable[Out]], meter: MetricMeter
) -> Callable[[Sequence[str]], Awaitable[Out]]:
    """`commit`, wrapped so that the size and time of each batch are recorded."""

    async def measuring(batch: Sequence[str]) -> Out:
        record(meter, COMMIT_WRITES, len(batch))
        began = time.monotonic()
        try:
            return await commit(batch)
        finally:
            record(meter, COMMIT_SECONDS, time.monotonic() - began)

    return measuring
