"""The console finds its Temporal server by the environment, as a process of its own does."""

from __future__ import annotations

import pytest

from perdure.servers.temporal import TemporalServer


@pytest.fixture(autouse=True)
def _where_temporal_is(temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
