"""`check_namespace`: what a server that refuses access answers is one line that says what to set.

The development server refuses nobody, so that answer alone is made here.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from perdure._worker.namespace import check_namespace
from perdure.errors import TemporalUnavailable


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RPCStatusCode.PERMISSION_DENIED, "refuses access to the namespace 'shop' (no): set TEMPORAL_API_KEY"),
        (RPCStatusCode.UNAUTHENTICATED, "refuses access to the namespace 'shop' (no): set TEMPORAL_API_KEY"),
        (RPCStatusCode.UNAVAILABLE, "gives no answer about the namespace 'shop' (no): wait until it serves"),
    ],
)
async def test_a_server_that_refuses_is_named_with_what_to_do(status: RPCStatusCode, said: str) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise RPCError("no", status, b"")

    client: Any = SimpleNamespace(
        namespace="shop",
        service_client=SimpleNamespace(config=SimpleNamespace(target_host="temporal.example.org:7233")),
        workflow_service=SimpleNamespace(describe_namespace=refuse),
    )
    with pytest.raises(TemporalUnavailable) as caught:
        await check_namespace(client)
    assert f"the Temporal server at temporal.example.org:7233 {said}" in str(caught.value)
    assert "\n" not in str(caught.value)
