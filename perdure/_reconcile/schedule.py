"""SCHEDULE: the reconciliation's own Schedule in Temporal, which is restored if it is missing or was changed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from perdure._crypto.codec import is_ours, reading_client
from perdure._reconcile.context import Context
from perdure._reconcile.workflow import Reconciliation, reconciliation_id
from perdure._store.finding_kinds import SCHEDULE
from perdure._store.sql import queries
from perdure._wire.reconciliation import ReconciliationRequest
from perdure.errors import Unopenable
from perdure.settings import Settings

query = queries(__name__)

_RPC = timedelta(seconds=10)
_ASKED = ReconciliationRequest(by="schedule")


async def check_schedule(context: Context, cursor: object = None) -> None:
    """Restore the Schedule, and report that. A paused Schedule stays paused, and is reported."""
    id = reconciliation_id(context.settings.scope)
    temporal_client = reading_client(context.temporal_client)
    handle = temporal_client.get_schedule_handle(id)
    found = await _described(handle)
    if not context.settings.reconciliation_every:
        if found is not None:
            await handle.delete(rpc_timeout=_RPC)
            await context.findings.mended(
                SCHEDULE, None, f"the Schedule {id} was deleted: PERDURE_RECONCILIATION_EVERY=0"
            )
        return
    if found is None:
        await make_schedule(temporal_client, context.settings)
        if await context.pool.fetchval(query("reconciled_before")):  # before the first reconciliation there is none
            await context.findings.mended(SCHEDULE, None, f"the Schedule {id} was missing, and is there again")
        return
    if changed := await _changes(temporal_client, found, _wanted(context.settings)):
        await handle.update(lambda _: ScheduleUpdate(_with_state_of(found, context.settings)), rpc_timeout=_RPC)
        what = f"the Schedule {id} was changed ({changed}), and is as it was again"
        await context.findings.mended(SCHEDULE, None, what, about="changed")
    if found.schedule.state.paused:
        what = f"the Schedule {id} is paused: {found.schedule.state.note or 'no reason was given'}"
        advice = f"temporal schedule toggle --unpause --schedule-id {id} --reason 'reconciliations again'"
        await context.findings.report(SCHEDULE, None, what, advice, about="paused")


async def make_schedule(temporal_client: Client, settings: Settings) -> bool:
    """Make the Schedule if it is missing. Returns whether it was made now."""
    client = reading_client(temporal_client)
    try:
        await client.create_schedule(reconciliation_id(settings.scope), _wanted(settings), rpc_timeout=_RPC)
    except ScheduleAlreadyRunningError:
        return False
    return True


def _wanted(settings: Settings) -> Schedule:
    every = timedelta(hours=settings.reconciliation_every)
    whole = reconciliation_id(settings.scope)
    return Schedule(
        action=ScheduleActionStartWorkflow(
            Reconciliation.run, _ASKED, id=whole, task_queue=whole, static_summary="perdure: reconciliation"
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=jitter(every)),
        # Workers make up for missed times: they check the time of the last reconciliation.
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=10)),
    )


def jitter(every: timedelta) -> timedelta:
    """The largest delay of a reconciliation, so that those of several databases do not begin at the same time."""
    return timedelta(seconds=round(every.total_seconds() / 24))


def _with_state_of(found: ScheduleDescription, settings: Settings) -> Schedule:
    wanted = _wanted(settings)
    wanted.state = found.schedule.state
    return wanted


async def _described(handle: ScheduleHandle) -> ScheduleDescription | None:
    try:
        return await handle.describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def _changes(temporal_client: Client, found: ScheduleDescription, wanted: Schedule) -> str:
    """The differences between the present Schedule and the intended one; '' = none."""
    is_one, should = await _shape(temporal_client, found.schedule), await _shape(temporal_client, wanted)
    return ", ".join(name for name in should if is_one[name] != should[name])


async def _shape(temporal_client: Client, schedule: Schedule) -> dict[str, Any]:
    """The parts to compare. Arguments are decoded, since a codec may encode the same arguments differently each
    time."""
    action = schedule.action
    given: dict[str, Any] = {"action": None, "arguments": None}
    if isinstance(action, ScheduleActionStartWorkflow):
        given["action"] = (action.workflow, action.id, action.task_queue)
        given["arguments"] = await _decoded(temporal_client, action.args)
    spec = asdict(schedule.spec)
    spec["time_zone_name"] = spec["time_zone_name"] or None
    return {**given, "policy": schedule.policy.overlap, **spec}


async def _decoded(temporal_client: Client, args: Any) -> Any:
    if any(isinstance(each, Payload) and is_ours(each) for each in args):  # it could not run after a change of keys
        return "something else"
    if all(isinstance(each, ReconciliationRequest) for each in args):
        return [each.model_dump() for each in args]
    try:
        return [
            each.model_dump()
            for each in await temporal_client.data_converter.decode(args, [ReconciliationRequest] * len(args))
        ]
    except (ValueError, TypeError, RuntimeError, Unopenable):  # its key is gone: make the Schedule again
        return "something else"
