"""The calls of start, signal, cancel and restart as plain data, the same for every connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.client.calls import Call, call, check_text, instant, message, person, rank, signal_name
from perdure.client.naming import Handler, entity_of, input_text, known, signal_text
from perdure.telemetry import names, traces

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.client.naming import Which


def start(
    app: App | None,
    lifecycle: Which,
    entity_id: object,
    given: Any,
    tenant: str | None,
    not_before: datetime | None,
    priority: int,
) -> Call:
    """See `Client.start`."""
    entity = entity_of(lifecycle, entity_id)
    text = input_text(entity, known(lifecycle, app), given)
    due, place = instant(str(entity), not_before), rank(str(entity), priority)
    check_text(str(entity), "tenant", tenant)
    return call("start", entity, input=text).also(tenant=tenant, not_before=due, priority=place)


def signal(
    app: App | None,
    lifecycle: Which,
    entity_id: object,
    name: str | Handler,
    payload: Any,
    message_id: str | None,
    not_before: datetime | None,
) -> Call:
    """See `Client.signal`."""
    entity = entity_of(lifecycle, entity_id)
    handler, text = signal_text(entity, known(lifecycle, app), name, payload)
    due, traceparent = instant(str(entity), not_before), traces.headers().get(traces.TRACEPARENT)
    asked = call("signal", entity, name=signal_name(str(entity), handler))
    known_by = message(str(entity), message_id)
    return asked.also(payload=text, message_id=known_by, not_before=due, traceparent=traceparent)


def cancel(lifecycle: Which, entity_id: object, by: str, note: str) -> Call:
    """See `Client.cancel`."""
    entity = entity_of(lifecycle, entity_id)
    return call("cancel", entity, **person(str(entity), by, note))


def restart(app: App | None, lifecycle: Which, entity_id: object, by: str, note: str, given: Any) -> Call:
    """See `Client.restart`."""
    entity, which = entity_of(lifecycle, entity_id), known(lifecycle, app)
    text = None if given is None else input_text(entity, which, given)
    return call("restart", entity, **person(str(entity), by, note)).also(input=text)


@contextmanager
def traced(asked: Call) -> Iterator[Call]:
    """Make a span around a start, in the app's own trace; yields the call with the span's `traceparent`."""
    name = f"{names.SPAN_START} {asked.entity.lifecycle}"
    with traces.span(name, {names.LIFECYCLE: asked.entity.lifecycle}, kind=traces.SpanKind.PRODUCER):
        yield asked.also(traceparent=traces.headers().get(traces.TRACEPARENT))
