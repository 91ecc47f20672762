"""Temporal's SDK without its warnings, for a process that has servers killed on purpose."""

from __future__ import annotations

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter


def quiet_runtime() -> Runtime:
    """A runtime that logs errors only."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(TelemetryFilter("ERROR", "ERROR"))))
