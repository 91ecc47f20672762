"""Spans, made through whatever tracer provider the process has; without one they cost next to nothing.

They say what happened to which workflow, never with which input or receipt, nor in whose words: messages of
exceptions and the `why` of outcomes stay out, since they may quote what is personal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace import SpanKind as SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT = "traceparent"
"""W3C Trace Context, 3.2: the one header that the outbox keeps."""

_tracer = trace.get_tracer("perdure")
_w3c = TraceContextTextMapPropagator()
_in_workflows = False
"""Whether the provider can make spans in workflow code: the same ones when a history is replayed."""

Attributes = Mapping[str, object]


@contextmanager
def span(
    name: str, attributes: Attributes, *, kind: SpanKind = SpanKind.INTERNAL, parent: str | None = None
) -> Iterator[Span]:
    """A span around the block, below the current one, or below `parent` (a `traceparent`)."""
    if not provided():
        yield trace.INVALID_SPAN
        return
    above = None if parent is None else _w3c.extract({TRACEPARENT: parent})
    with _tracer.start_as_current_span(
        name, above, kind, _plain(attributes), record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made
        except Exception as error:
            made.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def provided() -> bool:
    """Whether the process has a tracer provider."""
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def _plain(attributes: Attributes) -> dict[str, str | int]:
    return {name: value if isinstance(value, int) else str(value) for name, value in attributes.items()}


def headers() -> dict[str, str]:
    """The current span, as W3C headers for the other side; empty where nothing is traced."""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return carrier


@contextmanager
def span_in_workflow(name: str, attributes: Attributes, leaves: type[BaseException] | None = None) -> Iterator[None]:
    """A span around a block of workflow code. A worker that takes the run over goes on with the same span: Temporal's
    tracer gives it the id again that it had, and it is exported when the block is over, not when it is replayed.

    Args:
        leaves: an exception by which the block ends in order.
    """
    if not _in_workflows:
        yield
        return
    made = _tracer.start_span(name, attributes=_plain(attributes))
    token = contexts.attach(trace.set_span_in_context(made))
    try:
        yield
        made.end()
    except BaseException as error:
        from temporalio import workflow  # only now: a web app that starts lifecycles has no use for it

        # After any other one the span is not over: the task is done again from its beginning, or the run leaves this
        # worker's memory.
        if leaves is not None and isinstance(error, leaves):
            made.end()
        elif isinstance(error, Exception) and workflow.is_failure_exception(error):
            made.set_status(Status(StatusCode.ERROR, type(error).__name__))
            made.end()
        raise
    finally:
        with suppress(ValueError):  # of an abandoned coroutine, in another context
            token.var.reset(token)


def interceptor(others: Any = ()) -> Any:
    """Temporal's own interceptor, which takes trace context along in headers; None where the process traces nothing,
    where `others` holds one already, or where its tracer provider is not safe to use in workflows.
    """
    global _in_workflows
    if not provided():
        return None
    from temporalio.contrib import opentelemetry as contrib  # only now: it takes 0.3 s

    _in_workflows = isinstance(trace.get_tracer_provider(), contrib.ReplaySafeTracerProvider)
    known = (contrib.OpenTelemetryInterceptor, contrib.TracingInterceptor)
    if not _in_workflows or any(isinstance(each, known) for each in others):
        return None
    return contrib.OpenTelemetryInterceptor()
