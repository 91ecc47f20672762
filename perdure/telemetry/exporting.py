"""Sets up the export of logs, traces and metrics for `perdure worker`, by PERDURE_* and OTEL_*."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from opentelemetry import trace
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    OpenTelemetryConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from perdure.errors import InvalidSetting
from perdure.settings import Settings
from perdure.telemetry.names import METRICS, NO_SCOPE, SCOPE

CORE = logging.getLogger("temporalio.core")
"""The logger of the core of Temporal's SDK."""
FLUSHING = 2.0
"""Seconds that a stopping worker waits for the export of the last spans."""

_BUCKETS = {each.name: each.buckets for each in METRICS if each.buckets}


@contextmanager
def exporting(config: Settings) -> Iterator[Runtime]:
    """Export until the block ends. Yields the runtime that clients need for the export.

    Raises:
        InvalidSetting: the export cannot be set up here. The message has the reason.
    """
    if config.traces is None and config.metrics is None:
        yield _runtime(config)
        return
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "perdure")
    provider = _traced() if config.traces else None
    try:
        yield _runtime(config)
    finally:
        if provider is not None:
            # In a daemon thread, which does not delay the end of the process: the collector may be away.
            last = threading.Thread(target=provider.shutdown, daemon=True)
            last.start()
            last.join(FLUSHING)


def _traced() -> Any:
    """A provider that exports spans to OTEL_EXPORTER_OTLP_ENDPOINT in batches, sampled by OTEL_TRACES_SAMPLER."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise InvalidSetting("PERDURE_TRACES='otlp' needs an exporter: pip install 'perdure[otlp]'") from None
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from temporalio.contrib.opentelemetry import create_tracer_provider

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        raise InvalidSetting("PERDURE_TRACES='otlp': this process has a tracer provider already; leave the setting out")
    provider = create_tracer_provider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def _runtime(config: Settings) -> Runtime:
    metrics = None if config.metrics is None else _metrics(config.metrics)
    # Unless its logs are forwarded, the core of the SDK writes to standard error in a form of its own.
    forwarding = LogForwardingConfig(CORE, append_target_to_name=False, prepend_target_on_message=False)
    filter = TelemetryFilter(core_level="INFO" if config.log_level == "debug" else "WARN", other_level="ERROR")
    logs = LoggingConfig(filter=filter, forwarding=forwarding)
    try:
        tags = {SCOPE: config.scope or NO_SCOPE}
        return Runtime(
            telemetry=TelemetryConfig(logging=logs, metrics=metrics, global_tags=tags, attach_service_name=False)
        )
    except (ValueError, RuntimeError) as error:
        raise InvalidSetting(f"PERDURE_METRICS={config.metrics!r}: {error}") from error


def _metrics(where: str) -> OpenTelemetryConfig | PrometheusConfig:
    kind, _, address = where.partition(":")
    if kind == "prometheus":
        return PrometheusConfig(address, durations_as_seconds=True, histogram_bucket_overrides=_BUCKETS)
    return OpenTelemetryConfig(
        url=_metrics_endpoint(),
        http=True,
        metric_periodicity=_export_interval(),
        durations_as_seconds=True,
        histogram_bucket_overrides=_BUCKETS,
    )


def _metrics_endpoint() -> str:
    """OpenTelemetry Protocol Exporter, "Endpoint URLs for OTLP/HTTP"; Temporal's SDK requires the whole URL."""
    own = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    return own or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318").rstrip("/") + "/v1/metrics"


def _export_interval() -> timedelta:
    given = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "60000")
    try:
        return timedelta(milliseconds=max(int(given), 100))
    except ValueError:
        raise InvalidSetting(f"OTEL_METRIC_EXPORT_INTERVAL={given!r}: give milliseconds") from None
