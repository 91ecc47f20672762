"""The plugin of a worker of plain Temporal: activities for effects and their look-ups."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.plugin import SimplePlugin
from temporalio.service import RPCError
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from perdure import _faults as faults
from perdure._activity.execution import ask, attempt
from perdure._activity.hosting import TemporalHost
from perdure._text.privacy import describe
from perdure._wire.orders import CallResult, Report
from perdure._wire.writes import Answer, EffectView, FenceOp, Gate, Verdict, Write
from perdure.contracts.effects import Effect, Lookup, check_body
from perdure.contracts.lookups import check_lookup
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import Dedupe, Repeat
from perdure.errors import DeclarationError, TemporalUnavailable
from perdure.temporal.orders import PlainAttempt, PlainLookup


class EffectsPlugin(SimplePlugin):
    """Lets a worker of Temporal perform effects: `Worker(..., plugins=[EffectsPlugin(charge, refund)])`.

    It adds an activity for each effect and look-up, with the same name. Their modules and Perdure pass through the
    workflow sandbox, so a worker imports them once.

    Args:
        effects: effects that are declared with `@effect`.
        grace: seconds that a call under way may still take when the worker stops. Give the worker a
            `graceful_shutdown_timeout` that is three seconds longer.

    Raises:
        DeclarationError: an effect has no body, has a limit, is inline and may not be repeated, or its look-up could
            not find it.

    Example:
        >>> EffectsPlugin(grace=5).name()
        'perdure.EffectsPlugin'
    """

    def __init__(self, *effects: Effect[Any, Any], grace: float = 10.0) -> None:
        lookups = [each.lookup for each in effects if each.lookup is not None]
        self._modules = {str(each.module) for each in (*effects, *lookups)}
        super().__init__(
            "perdure.EffectsPlugin",
            activities=[*(_attempting(each, grace) for each in effects), *(_asking(each, grace) for each in lookups)],
            workflow_runner=self._passing_through,
        )

    def _passing_through(self, given: WorkflowRunner | None) -> WorkflowRunner:
        runner = given or SandboxedWorkflowRunner()
        if not isinstance(runner, SandboxedWorkflowRunner):
            return runner
        names = ("perdure", "pydantic", "pydantic_core", "annotated_types", "opentelemetry", *self._modules)
        return dataclasses.replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*names))


def _attempting(effect: Effect[Any, Any], grace: float) -> Callable[..., Any]:
    body = _body(effect)
    if effect.lookup is not None:
        check_lookup("EffectsPlugin", effect, effect.lookup)
    if effect.limit is not None:
        raise DeclarationError(f"{effect.name}: a RateLimit needs a lifecycle")
    if effect.inline and not isinstance(effect.doubt, Repeat):
        raise DeclarationError(
            f"{effect.name}: inline=True needs a lifecycle, or doubt=Repeat(): a local activity whose workflow task is "
            "lost leaves no trace in the history, and is made again"
        )

    @activity.defn(name=effect.name)
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        order = PlainAttempt.model_validate(given)
        host = TemporalHost(grace)
        if order.begin_by is not None and host.now > order.begin_by:
            why = "the other side may have forgotten the key"
            report = Report(result=CallResult.STANDING, token="", begun=False, made=False, effect=order.view, why=why)
            return report.model_dump(mode="json")
        making = attempt(effect, body, order.order, _HistoryOnly(order.view), host)
        report = await host.to_its_end(making, gives_way=isinstance(effect.doubt, (Repeat, Dedupe)))
        faults.point("before the report of", effect.name)
        return report.model_dump(mode="json")

    return run


def _asking(lookup: Lookup[Any, Any], grace: float) -> Callable[..., Any]:
    body = _body(lookup)

    @activity.defn(name=lookup.name)
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        order = PlainLookup.model_validate(given)
        report = await ask(lookup, body, order.order, _HistoryOnly(order.view), TemporalHost(grace))
        faults.point("before the report of", lookup.name)
        return report.model_dump(mode="json")

    return run


def _body(contract: Effect[Any, Any] | Lookup[Any, Any]) -> Callable[..., Any]:
    if contract.body is None:
        raise DeclarationError(f"{contract.name} has no body: declare it with @effect or @lookup")
    check_body(contract, contract.body)
    return contract.body


class _HistoryOnly:
    """A store that answers from the workflow's own facts. The history records what is written to it."""

    def __init__(self, view: EffectView) -> None:
        self._view = view

    async def write(self, write: Write, *, patience: float) -> Answer:
        """See `Store`."""
        fence = write.fence
        assert fence is not None
        if fence.op is FenceOp.BEGIN:
            await _check_order(patience)
            changes = {"status": EffectStatus.ATTEMPTING, "attempts": self._view.attempts + 1}
            self._view = self._view.model_copy(
                update={**changes, "token": fence.token, "in_flight": fence.in_flight, "first_at": self._view.first_at}
            )
            return Answer(gate=Gate.OPEN, verdict=Verdict.FRESH, effect=self._view)
        if fence.op is FenceOp.OUTCOME:
            self._view = self._view.model_copy(
                update={"status": fence.status, "receipt": fence.receipt, "why": fence.why}
            )
        elif fence.op is FenceOp.NOTE:
            raise DeclarationError("a hint for the look-up needs a lifecycle: here only the key survives a lost worker")
        return Answer(gate=Gate.OPEN, verdict=Verdict.STORED, effect=self._view)


async def _check_order(patience: float) -> None:
    """Ask Temporal whether the workflow still waits for this execution: the worker may have been frozen since it
    received the order. An order that is younger than the pause between two heartbeats needs no question. The attempt's
    time counts from before the question, so no freeze after the answer lets the attempt end later.

    Raises:
        TemporalUnavailable: the workflow has given the order up, or Temporal gave no answer.
    """
    info = activity.info()
    if not info.heartbeat_timeout or datetime.now(UTC) - info.started_time < info.heartbeat_timeout / 3:
        return
    order = activity.client().get_async_activity_handle(task_token=info.task_token)
    try:
        await asyncio.wait_for(order.heartbeat(), patience)
    except (RPCError, AsyncActivityCancelledError, TimeoutError) as error:
        raise TemporalUnavailable(f"Temporal did not confirm the order, which is old: {describe(error)}") from error
