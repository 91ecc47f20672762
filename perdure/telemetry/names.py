"""The names of metrics, spans and attributes: an interface. docs/telemetry.md describes them, and the site's
reference lists the metrics.

No label holds an id. The values of labels come from the declarations of the app, or from the short lists here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OTHER = "other"
"""The label's value for a state that the app does not declare."""

SCOPE = "scope"
"""Label of every series, those of Temporal's SDK included: PERDURE_SCOPE, so that installations stay apart."""
NO_SCOPE = "none"
"""The label's value without a scope, because Prometheus drops an empty label."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        unit: `seconds`, or none.
        labels: the names of the labels.
        meaning: one line, which `# HELP` shows too.
        buckets: the upper bounds of a histogram's buckets.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LONG = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

# Events
STATES_ENTERED = Metric(
    "perdure_states_entered_total", "counter", "lifecycles that entered a state", ("lifecycle", "state")
)
ATTEMPTS = Metric(
    "perdure_attempts_total",
    "counter",
    "attempts that began, by outcome: done, not_done, refused, in_doubt",
    ("lifecycle", "effect", "outcome"),
)
ATTEMPT_SECONDS = Metric(
    "perdure_attempt_seconds",
    "histogram",
    "duration of an attempt, with its records; attempts of lost workers are missing",
    ("lifecycle", "effect", "outcome"),
    "seconds",
    _LONG,
)
LOOK_UPS = Metric(
    "perdure_look_ups_total",
    "counter",
    "look-ups, by answer: hit, miss, early (a miss that does not count yet), unanswered",
    ("lifecycle", "lookup", "answer"),
)
EXPIRED = Metric(
    "perdure_expired_total",
    "counter",
    "effects that expired before they were settled, by outcome: in_doubt (it may have happened), not_done",
    ("lifecycle", "effect", "outcome"),
)

# The present state
OPEN = Metric(
    "perdure_open", "gauge", "open lifecycles; those that are not delivered yet are `starting`", ("lifecycle", "state")
)
OLDEST_SECONDS = Metric(
    "perdure_oldest_seconds",
    "gauge",
    "longest time that an open lifecycle has been in this state; 0 = none is in it",
    ("lifecycle", "state"),
    "seconds",
)
STUCK = Metric(
    "perdure_stuck", "gauge", "open lifecycles that have been in their state for longer than `within`", ("lifecycle",)
)
ATTENTION = Metric("perdure_attention", "gauge", "open lifecycles that need a person", ("lifecycle",))
IN_DOUBT = Metric("perdure_in_doubt", "gauge", "effects that may have happened", ("lifecycle", "effect"))
IN_DOUBT_SECONDS = Metric(
    "perdure_in_doubt_oldest_seconds",
    "gauge",
    "longest time that an effect in doubt has not been in flight any more; 0 = none is in doubt",
    ("lifecycle", "effect"),
    "seconds",
)
PARKED = Metric(
    "perdure_parked", "gauge", "open lifecycles that wait for a person to resolve an effect", ("lifecycle",)
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
    "open entities whose workflow was ended outside Perdure (ended) or is gone (vanished), if a person must act or the "
    "entity was started again within the last hour",
    ("lifecycle", "kind"),
)
FINDINGS = Metric("perdure_findings", "gauge", "differences that reconciliations left for a person", ("kind",))
MENDED = Metric("perdure_mended_total", "counter", "differences that reconciliations mended", ("kind",))
RECONCILIATION_AGE_SECONDS = Metric(
    "perdure_reconciliation_age_seconds",
    "gauge",
    "time since the last finished full reconciliation began; if none was due for some time, since one interval before "
    "the next one began; 0 = not configured",
    unit="seconds",
)
READ_AT = Metric(
    "perdure_read_timestamp_seconds",
    "gauge",
    "time at which the gauges were last read from the database, Unix time",
    unit="seconds",
)

# Deliveries to Temporal, and the database
RELAY_WAITING = Metric(
    "perdure_relay_waiting",
    "gauge",
    "rows of the outbox that are due",
)
RELAY_LAG_SECONDS = Metric(
    "perdure_relay_lag_seconds",
    "gauge",
    "time that the oldest due row has waited, since its commit or its not_before; 0 = no row waits",
    unit="seconds",
)
RELAY_UNKNOWN = Metric(
    "perdure_relay_unknown",
    "gauge",
    "rows of the outbox that wait because no running worker has their lifecycle or signal",
)
RELAY_DELIVERED = Metric("perdure_relay_delivered_total", "counter", "rows delivered: start, wake", ("kind",))
RELAY_REJECTED = Metric("perdure_relay_rejected_total", "counter", "rows that can never be delivered", ("kind",))
RELAY_POSTPONED = Metric(
    "perdure_relay_postponed_total", "counter", "deliveries that failed and will be repeated", ("kind",)
)
COMMIT_SECONDS = Metric(
    "perdure_commit_seconds", "histogram", "duration of a group commit, also of one that failed", (), "seconds", _QUICK
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
    "age of the oldest waiting task; NaN while Temporal does not answer",
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
    "time at which Temporal last answered a question about a task queue, Unix time",
    unit="seconds",
)

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
"""All metrics of Perdure."""

SDK_METRICS = (
    "temporal_workflow_task_execution_failed",
    "temporal_workflow_task_execution_latency",
    "temporal_workflow_task_schedule_to_start_latency",
    "temporal_activity_schedule_to_start_latency",
    "temporal_worker_task_slots_available",
    "temporal_worker_task_slots_used",
    "temporal_sticky_cache_size",
)
"""The metrics of Temporal's SDK that dashboard and alerts read; the endpoint has more. Latencies are in seconds."""

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
"""Temporal's own name of the workflow id: `[<scope>/]<lifecycle>/<entity id>`."""
LIFECYCLE = "perdure.lifecycle"
GENERATION = "perdure.generation"
EFFECT = "perdure.effect"
LOOKUP = "perdure.lookup"
STEP = "perdure.step"
ATTEMPT = "perdure.attempt"
OUTCOME = "perdure.outcome"
ATTRIBUTES = (WORKFLOW_ID, LIFECYCLE, GENERATION, EFFECT, LOOKUP, STEP, ATTEMPT, OUTCOME)
