"""The names of metrics, spans and attributes: an interface. docs/telemetry.md describes them, and the site's
reference lists the metrics.

No label holds an id: each takes its values from what the app declares, or from the short lists here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OTHER = "other"
"""In place of a state that the app does not declare."""

SCOPE = "scope"
"""Label of every series, those of Temporal's SDK included: PERDURE_SCOPE, so that installations stay apart."""
NO_SCOPE = "none"
"""Its value without one: an empty label is none in Prometheus."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        unit: `seconds`, or none.
        labels: their names.
        meaning: one line; also what `# HELP` says.
        buckets: upper bounds, of a histogram.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LONG = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

# What happens
STATES_ENTERED = Metric(
    "perdure_states_entered_total", "counter", "lifecycles that came into a state", ("lifecycle", "state")
)
ATTEMPTS = Metric(
    "perdure_attempts_total",
    "counter",
    "attempts that were begun, by how each ended: done, not_done, refused, in_doubt",
    ("lifecycle", "effect", "outcome"),
)
ATTEMPT_SECONDS = Metric(
    "perdure_attempt_seconds",
    "histogram",
    "how long an attempt took, with its records; those of lost workers are missing",
    ("lifecycle", "effect", "outcome"),
    "seconds",
    _LONG,
)
LOOK_UPS = Metric(
    "perdure_look_ups_total",
    "counter",
    "look-ups, by their answer: hit, miss, early (a miss that does not count yet), mute (it gave no answer)",
    ("lifecycle", "lookup", "answer"),
)
EXPIRED = Metric(
    "perdure_expired_total",
    "counter",
    "effects that were of no use any more before they were settled; in_doubt (it may have happened), not_done",
    ("lifecycle", "effect", "outcome"),
)

# How it stands
OPEN = Metric(
    "perdure_open", "gauge", "open lifecycles; those that are not delivered yet are `starting`", ("lifecycle", "state")
)
OLDEST_SECONDS = Metric(
    "perdure_oldest_seconds",
    "gauge",
    "how long the one that is longest in this state has been in it; 0 = none is",
    ("lifecycle", "state"),
    "seconds",
)
STUCK = Metric(
    "perdure_stuck", "gauge", "open lifecycles that are in their state for longer than `within`", ("lifecycle",)
)
ATTENTION = Metric("perdure_attention", "gauge", "open lifecycles that need a person", ("lifecycle",))
IN_DOUBT = Metric(
    "perdure_in_doubt", "gauge", "effects of which nobody knows whether they happened", ("lifecycle", "effect")
)
IN_DOUBT_SECONDS = Metric(
    "perdure_in_doubt_oldest_seconds",
    "gauge",
    "how long the oldest of them can not be in flight any more; 0 = there is none",
    ("lifecycle", "effect"),
    "seconds",
)
PARKED = Metric(
    "perdure_parked", "gauge", "open lifecycles that wait for a person to say what became of an effect", ("lifecycle",)
)
REJECTED = Metric(
    "perdure_rejected",
    "gauge",
    "rows that could not be delivered, until somebody retries or drops them: start, message, wake",
    ("lifecycle", "kind"),
)
BEHIND = Metric("perdure_behind", "gauge", "app rows that do not show the newest state yet")
VANISHED = Metric(
    "perdure_vanished",
    "gauge",
    "open entities whose workflow was ended past perdure (ended) or is gone (vanished): a person must see to them, or "
    "they were started again within the last hour",
    ("lifecycle", "kind"),
)
FINDINGS = Metric("perdure_findings", "gauge", "what reconciliations found and left for a person", ("kind",))
MENDED = Metric("perdure_mended_total", "counter", "what reconciliations found and mended", ("kind",))
RECONCILIATION_AGE_SECONDS = Metric(
    "perdure_reconciliation_age_seconds",
    "gauge",
    "how long ago the last finished reconciliation of everything began, or was made possible; 0 = none is configured",
    unit="seconds",
)
READ_AT = Metric(
    "perdure_read_timestamp_seconds",
    "gauge",
    "when the gauges were last read from the database, Unix time",
    unit="seconds",
)

# The way to Temporal, and to the database
RELAY_WAITING = Metric(
    "perdure_relay_waiting",
    "gauge",
    "rows of the outbox; those with a later not_before count from then on",
)
RELAY_LAG_SECONDS = Metric(
    "perdure_relay_lag_seconds",
    "gauge",
    "how long the oldest of them has waited: since its commit, or since its not_before; 0 = none waits",
    unit="seconds",
)
RELAY_UNKNOWN = Metric(
    "perdure_relay_unknown",
    "gauge",
    "rows of the outbox that name a lifecycle, or a signal of one, that no running worker has: they wait",
)
RELAY_DELIVERED = Metric("perdure_relay_delivered_total", "counter", "rows delivered: start, wake", ("kind",))
RELAY_REJECTED = Metric("perdure_relay_rejected_total", "counter", "rows that can never be delivered", ("kind",))
RELAY_POSTPONED = Metric(
    "perdure_relay_postponed_total", "counter", "rows that could not be delivered then, and are tried again", ("kind",)
)
COMMIT_SECONDS = Metric(
    "perdure_commit_seconds", "histogram", "how long a group commit took, or failed to", (), "seconds", _QUICK
)
COMMIT_WRITES = Metric(
    "perdure_commit_writes",
    "histogram",
    "writes in a group commit",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200),
)
BACKLOG = Metric(
    "perdure_task_queue_backlog",
    "gauge",
    "tasks that wait for a worker: workflow, activity; NaN while Temporal does not answer",
    ("task_queue", "kind"),
)
BACKLOG_SECONDS = Metric(
    "perdure_task_queue_backlog_seconds",
    "gauge",
    "age of the oldest of them; NaN while Temporal does not answer",
    ("task_queue", "kind"),
    "seconds",
)
POLLERS = Metric(
    "perdure_task_queue_pollers",
    "gauge",
    "workers that polled for tasks within the last minutes; NaN while Temporal does not answer",
    ("task_queue", "kind"),
)
TEMPORAL_ANSWERED_AT = Metric(
    "perdure_temporal_answered_timestamp_seconds",
    "gauge",
    "when Temporal last answered a question about a task queue, Unix time",
    unit="seconds",
)

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
"""All of perdure's."""

SDK_METRICS = (
    "temporal_workflow_task_execution_failed",
    "temporal_workflow_task_execution_latency",
    "temporal_workflow_task_schedule_to_start_latency",
    "temporal_activity_schedule_to_start_latency",
    "temporal_worker_task_slots_available",
    "temporal_worker_task_slots_used",
    "temporal_sticky_cache_size",
)
"""Of the many that Temporal's SDK gives at the same endpoint: what dashboard and alerts read. Latencies in seconds."""

# Spans: each is `<name> <lifecycle, effect, look-up or step>`
SPAN_START = "perdure.start"
SPAN_DELIVER = "perdure.deliver"
SPAN_RUN = "perdure.run"
SPAN_PERFORM = "perdure.perform"
SPAN_ATTEMPT = "perdure.attempt"
SPAN_LOOK_UP = "perdure.look-up"
SPAN_STEP = "perdure.step"
SPANS = (SPAN_START, SPAN_DELIVER, SPAN_RUN, SPAN_PERFORM, SPAN_ATTEMPT, SPAN_LOOK_UP, SPAN_STEP)

WORKFLOW_ID = "temporalWorkflowID"
"""Temporal's own name for it: `[<scope>/]<lifecycle>/<entity id>`."""
LIFECYCLE = "perdure.lifecycle"
ROUND = "perdure.generation"
EFFECT = "perdure.effect"
LOOKUP = "perdure.lookup"
STEP = "perdure.step"
ATTEMPT = "perdure.attempt"
OUTCOME = "perdure.outcome"
ATTRIBUTES = (WORKFLOW_ID, LIFECYCLE, ROUND, EFFECT, LOOKUP, STEP, ATTEMPT, OUTCOME)
