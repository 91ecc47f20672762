"""Spans, made through the tracer provider of the process. Without a provider they cost next to nothing.

A span names the event and the workflow. It never contains an input, a receipt, the message of an exception or the `why`
of an outcome, because these may quote personal data.
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
"""W3C Trace Context, 3.2: the one header that the outbox stores."""

_tracer = trace.get_tracer("perdure")
_w3c = TraceContextTextMapPropagator()
_in_workflows = False
"""Whether the provider can make spans in workflow code, where a replay must make the same spans again."""

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
    """The current span, as W3C headers for the other side; empty without tracing."""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return carrier


@contextmanager
def span_in_workflow(name: str, attributes: Attributes, leaves: type[BaseException] | None = None) -> Iterator[None]:
    """A span around a block of workflow code. A worker that takes the run over continues the same span: Temporal's
    tracer gives it the same id. The span is exported when the block ends, not when the block is replayed.

    Args:
        leaves: an exception that ends the block without an error.
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
        from temporalio import workflow  # imported late: a web app that starts lifecycles does not need it

        # After any other exception the span is not over: Temporal repeats the task, or the run leaves this worker's
        # memory.
        if leaves is not None and isinstance(error, leaves):
            made.end()
        elif isinstance(error, Exception) and workflow.is_failure_exception(error):
            made.set_status(Status(StatusCode.ERROR, type(error).__name__))
            made.end()
        raise
    finally:
        with suppress(ValueError):  # an abandoned coroutine ends in another context
            token.var.reset(token)


def interceptor(others: Any = ()) -> Any:
    """Temporal's own interceptor, which passes the trace context in headers. None if the process does not trace, if
    `others` contains one already, or if the tracer provider is not safe to use in workflows.
    """
    global _in_workflows
    if not provided():
        return None
    from temporalio.contrib import opentelemetry as contrib  # imported late: the import takes 0.3 s

    _in_workflows = isinstance(trace.get_tracer_provider(), contrib.ReplaySafeTracerProvider)
    known = (contrib.OpenTelemetryInterceptor, contrib.TracingInterceptor)
    if not _in_workflows or any(isinstance(each, known) for each in others):
        return None
    return contrib.OpenTelemetryInterceptor()
