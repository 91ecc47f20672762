"""SCHEDULE: the clean-up's own Schedule in Temporal, which is put back where it is missing or was changed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

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

from perdure._reconcile.ground import Ground
from perdure._reconcile.workflow import CleanUp, clean_up_id
from perdure._store.finding_kinds import SCHEDULE
from perdure._store.sql import queries
from perdure._wire.clean_up import Asked
from perdure.errors import Unopenable
from perdure.settings import Settings

query = queries(__name__)

_RPC = timedelta(seconds=10)
_ASKED = Asked(by="schedule")


async def check_schedule(ground: Ground, cursor: object = None) -> None:
    """Put the Schedule back, and say so. One that somebody paused stays so, and that is reported."""
    id = clean_up_id(ground.settings.scope)
    handle = ground.engine.get_schedule_handle(id)
    found = await _described(handle)
    if not ground.settings.clean_up_every:
        if found is not None:
            await handle.delete(rpc_timeout=_RPC)
            await ground.findings.mended(SCHEDULE, None, f"the Schedule {id} was deleted: PERDURE_CLEAN_UP_EVERY=0")
        return
    if found is None:
        await make_schedule(ground.engine, ground.settings)
        if await ground.pool.fetchval(query("cleaned_up_before")):  # the first one finds none
            await ground.findings.mended(SCHEDULE, None, f"the Schedule {id} was missing, and is there again")
        return
    if changed := await _changes(ground.engine, found, _wanted(ground.settings)):
        await handle.update(lambda _: ScheduleUpdate(_with_state_of(found, ground.settings)), rpc_timeout=_RPC)
        what = f"the Schedule {id} was changed ({changed}), and is as it was again"
        await ground.findings.mended(SCHEDULE, None, what, about="changed")
    if found.schedule.state.paused:
        what = f"the Schedule {id} is paused: {found.schedule.state.note or 'nobody said why'}"
        advice = f"temporal schedule toggle --unpause --schedule-id {id} --reason 'clean-ups again'"
        await ground.findings.report(SCHEDULE, None, what, advice, about="paused")


async def make_schedule(engine: Client, settings: Settings) -> bool:
    """Make the Schedule where there is none; whether it was made now."""
    try:
        await engine.create_schedule(clean_up_id(settings.scope), _wanted(settings), rpc_timeout=_RPC)
    except ScheduleAlreadyRunningError:
        return False
    return True


def _wanted(settings: Settings) -> Schedule:
    every = timedelta(hours=settings.clean_up_every)
    whole = clean_up_id(settings.scope)
    return Schedule(
        action=ScheduleActionStartWorkflow(
            CleanUp.run, _ASKED, id=whole, task_queue=whole, static_summary="perdure: clean-up"
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=jitter(every)),
        # What was missed is made up by the workers, which look when the last one was.
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=10)),
    )


def jitter(every: timedelta) -> timedelta:
    """By how much a clean-up may come late, so that the databases of one Temporal don't come in step."""
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


async def _changes(engine: Client, found: ScheduleDescription, wanted: Schedule) -> str:
    """What of it is not as it should be; '' = nothing."""
    is_one, should = await _shape(engine, found.schedule), await _shape(engine, wanted)
    return ", ".join(name for name in should if is_one[name] != should[name])


async def _shape(engine: Client, schedule: Schedule) -> dict[str, Any]:
    """What counts; arguments decoded, since a codec may write the same ones differently each time."""
    action = schedule.action
    given: dict[str, Any] = {"action": None, "arguments": None}
    if isinstance(action, ScheduleActionStartWorkflow):
        given["action"] = (action.workflow, action.id, action.task_queue)
        given["arguments"] = await _decoded(engine, action.args)
    spec = asdict(schedule.spec)
    spec["time_zone_name"] = spec["time_zone_name"] or None
    return {**given, "policy": schedule.policy.overlap, **spec}


async def _decoded(engine: Client, args: Any) -> Any:
    if all(isinstance(each, Asked) for each in args):
        return [each.model_dump() for each in args]
    try:
        return [each.model_dump() for each in await engine.data_converter.decode(args, [Asked] * len(args))]
    except (ValueError, TypeError, RuntimeError, Unopenable):  # made with a key that is gone: it is made again
        return "something else"
