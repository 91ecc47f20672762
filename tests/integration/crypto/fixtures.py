"""A world with keys, and all that its Temporal and its database hold, raw."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from pydantic import SecretStr
from temporalio.api.common.v1 import Header, Payload, SearchAttributes, WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DescribeScheduleRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
)

from perdure._crypto.codec import is_ours
from perdure._reconcile.workflow import reconciliation_id
from perdure._services.ownership.keeper import keeper_id
from perdure.encryption import Private
from tests.apps.private_messages import PHONE, SECRET, Secret
from tests.world import World

FIRST = "first:" + base64.b64encode(b"1" * 32).decode()
SECOND = "second:" + base64.b64encode(b"2" * 32).decode()
GIVEN = Secret(to=Private(PHONE), text=SECRET)


def keys(*given: str) -> dict[str, Any]:
    """Settings of a worker that has them."""
    return {"keys": SecretStr(",".join(given))}


async def everything(world: World, *runs: tuple[str, str]) -> list[Message]:
    """Raw, as the server has it: histories and descriptions of all workflows of this world but the keeper's, which are
    in plain.

    Args:
        runs: more of them, as id and run id: lists are late.
    """
    service, namespace = world.temporal_client.workflow_service, world.temporal_client.namespace
    query = f"WorkflowId starts_with '{world.scope}:' or WorkflowId starts_with 'perdure-'"
    listed = await service.list_workflow_executions(ListWorkflowExecutionsRequest(namespace=namespace, query=query))
    listed_ones = [each.execution for each in listed.executions]
    executions = [
        each for each in listed_ones if world.scope in each.workflow_id and each.workflow_id != keeper_id(world.scope)
    ]
    executions += [WorkflowExecution(workflow_id=id, run_id=run) for id, run in runs]
    found: list[Message] = [listed]
    for execution in executions:
        history = GetWorkflowExecutionHistoryRequest(namespace=namespace, execution=execution)
        found.append(await service.get_workflow_execution_history(history))
        describe = DescribeWorkflowExecutionRequest(namespace=namespace, execution=execution)
        found.append(await service.describe_workflow_execution(describe))
    return found


async def the_reconciliation(world: World) -> list[Message]:
    """Raw: the Schedule of the reconciliation, and what it did; the Schedule is deleted."""
    service, namespace, id = (
        world.temporal_client.workflow_service,
        world.temporal_client.namespace,
        reconciliation_id(world.scope),
    )
    schedule = await service.describe_schedule(DescribeScheduleRequest(namespace=namespace, schedule_id=id))
    await world.temporal_client.get_schedule_handle(id).delete()
    execution = WorkflowExecution(workflow_id=id)
    history = GetWorkflowExecutionHistoryRequest(namespace=namespace, execution=execution)
    describe = DescribeWorkflowExecutionRequest(namespace=namespace, execution=execution)
    return [
        schedule,
        await service.get_workflow_execution_history(history),
        await service.describe_workflow_execution(describe),
    ]


def payloads(message: Message) -> Iterator[tuple[str, Payload]]:
    """Every payload in it, and where it stands; but search attributes and headers, which no codec sees."""
    if isinstance(message, Payload):
        yield "", message
        return
    if isinstance(message, (SearchAttributes, Header)):
        return
    for field, value in message.ListFields():
        for key, each in _messages(value):
            for place, payload in payloads(each):
                yield f"{field.name}{key}.{place}", payload


def _messages(value: Any) -> Iterator[tuple[str, Message]]:
    if isinstance(value, Message):
        yield "", value
    elif hasattr(value, "items"):
        yield from ((f"[{key}]", each) for key, each in value.items() if isinstance(each, Message))
    elif not isinstance(value, (str, bytes, int, float)):
        yield from (("", each) for each in value if isinstance(each, Message))


def in_plain(found: list[Message]) -> set[str]:
    """Where payloads stand that are not encrypted."""
    return {place for each in found for place, payload in payloads(each) if not is_ours(payload)}


async def in_the_database(world: World) -> str:
    """All rows of all tables of the schema, as text."""
    tables = await world.db.fetch(
        "select c.oid::regclass::text as name from pg_class c where relnamespace = 'perdure'::regnamespace "
        "and relkind in ('r', 'p') and not relispartition"
    )
    rows = [row for table in tables for row in await world.db.fetch(f"select t::text from {table['name']} t")]
    return "\n".join(row[0] for row in rows)
