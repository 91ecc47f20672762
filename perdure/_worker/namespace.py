"""Checks that a client's namespace exists and may be used, and makes it."""

from __future__ import annotations

import shlex
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.errors import TemporalUnavailable

_PATIENCE = timedelta(seconds=10)
_REFUSED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


async def check_namespace(client: Client) -> None:
    """Check that the client can work in its namespace.

    Raises:
        TemporalUnavailable: the server has no such namespace, refuses it, or gives no answer.
    """
    name, address = client.namespace, client.service_client.config.target_host
    try:
        asked = DescribeNamespaceRequest(namespace=name)
        await client.workflow_service.describe_namespace(asked, timeout=_PATIENCE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            make = (
                f"temporal operator namespace create --namespace {shlex.quote(name)} --address {shlex.quote(address)}"
            )
            why = f"has no namespace {name!r}: make it (`{make}`), or set TEMPORAL_NAMESPACE"
        elif error.status in _REFUSED:
            why = (
                f"refuses access to the namespace {name!r} ({error.message}): set TEMPORAL_API_KEY, or "
                "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, to credentials that are permitted"
            )
        else:
            why = f"gives no answer about the namespace {name!r} ({error.message}): wait until it serves"
        raise TemporalUnavailable(f"the Temporal server at {address} {why}") from error


async def make_namespace(client: Client, retention: timedelta) -> None:
    """Make the client's namespace, if the server does not have it.

    Args:
        client: a client of the server.
        retention: how long Temporal keeps the histories of ended workflows.

    Raises:
        RPCError: the server refuses, or gives no answer.
    """
    request = RegisterNamespaceRequest(namespace=client.namespace)
    request.workflow_execution_retention_period.FromTimedelta(retention)
    try:
        await client.workflow_service.register_namespace(request, timeout=_PATIENCE)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
