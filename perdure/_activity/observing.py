"""Records a span, and the time in a histogram, for each attempt, look-up and step of a worker."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

from opentelemetry.trace import Status, StatusCode
from temporalio import activity

from perdure._wire.orders import AttemptOrder, CallResult, LookupOrder, Report, StepOrder
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.steps import Step
from perdure.telemetry import metrics, names, traces

_FAILED = (CallResult.NOT_DONE, CallResult.REFUSED, CallResult.IN_DOUBT, CallResult.UNANSWERED)


async def attempting(effect: Effect[Any, Any], order: AttemptOrder, attempt: Awaitable[Report]) -> Report:
    """Await an attempt."""
    lifecycle, began = order.write.lifecycle, time.monotonic()
    about: dict[str, object] = {names.EFFECT: effect.name, names.ATTEMPT: order.number}
    report = await _spanning(f"{names.SPAN_ATTEMPT} {effect.name}", lifecycle, about, attempt)
    if report.begun:
        metrics.record(
            *(activity.metric_meter(), names.ATTEMPT_SECONDS, time.monotonic() - began),
            lifecycle=lifecycle,
            effect=effect.name,
            outcome=report.result.value,
        )
    return report


async def asking(find: Lookup[Any, Any], order: LookupOrder, question: Awaitable[Report]) -> Report:
    """Await a look-up."""
    return await _spanning(
        f"{names.SPAN_LOOK_UP} {find.name}", order.write.lifecycle, {names.LOOKUP: find.name}, question
    )


async def taking(step: Step[Any, Any], order: StepOrder, making: Awaitable[Report]) -> Report:
    """Await a step."""
    about: dict[str, object] = {names.STEP: step.name}
    return await _spanning(f"{names.SPAN_STEP} {step.name}", order.write.lifecycle, about, making)


async def _spanning(name: str, lifecycle: str, about: dict[str, object], making: Awaitable[Report]) -> Report:
    if not traces.provided():
        return await making
    where: dict[str, object] = {names.LIFECYCLE: lifecycle, names.WORKFLOW_ID: activity.info().workflow_id or ""}
    with traces.span(name, where | about) as span:
        report = await making
        span.set_attribute(names.OUTCOME, report.result.value)
        if report.result in _FAILED:
            span.set_status(Status(StatusCode.ERROR, report.result.value))
    return report
