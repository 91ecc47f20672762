"""Each condition of an entity follows from what was read, and is told apart from the similar ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure._operations.condition import Attempt, Condition, Facts, Task, WorkflowView, assess

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DOUBTS = {"send-mail": "it is in doubt, and find-mail is asked"}


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def attempt(ends: float) -> Attempt:
    return Attempt("send-mail", 2, at(-10), at(ends))


def sending(last_heartbeat: float | None = None, **more: Any) -> Task:
    """An attempt with heartbeats, that was begun 10 s ago."""
    given = {
        "began": at(-10),
        "silence": 5.0,
        "until": at(3),
        "worker": "w1",
        "last_heartbeat": last_heartbeat and at(last_heartbeat),
    }
    return Task("send-mail: attempt 2", at(-11), slot="send-mail", **{**given, **more})


def thinking(polled: float | None = None, **more: Any) -> Task:
    """A workflow task that was taken 3 s ago."""
    return Task(
        "a workflow task",
        at(-4),
        **{"began": at(-3), "worker": "w1", "until": at(7), "polled": polled and at(polled), **more},
    )


def waiting(pollers: int | None, **more: Any) -> Task:
    return Task("a workflow task", at(-4), queue="q", pollers=pollers, **more)


def seen(*tasks: Task, **more: Any) -> tuple[Condition, str]:
    return told(workflow=WorkflowView(True, "running", tasks), **more)


def told(**facts: Any) -> tuple[Condition, str]:
    found = assess(Facts(now=NOW, doubts=DOUBTS, **facts))
    return found.condition, found.sentence


GONE, HELD, NOT_PICKED_UP, WAITS = Condition.HOLDER_GONE, Condition.HELD, Condition.NOT_PICKED_UP, Condition.WAITS
RUNS = "send-mail: attempt 2 runs at w1 for 10.0 s"
LOST = "send-mail: attempt 2 began at w1 10.0 s ago, and its last sign of life was"
ASKED = "Temporal waits until 12:00:03 UTC, then it is in doubt, and find-mail is asked"


def test_an_attempt_is_held_while_its_worker_is_heard() -> None:
    assert seen(sending(-1.2)) == (HELD, f"{RUNS}, last heartbeat 1.2 s ago")
    assert seen(sending(began=at(-2))) == (HELD, "send-mail: attempt 2 runs at w1 for 2.0 s, no heartbeat yet")


def test_a_worker_whose_heartbeats_come_is_there_though_it_asks_for_no_more_work() -> None:
    assert seen(sending(-1.2, polled=at(-300)), attempts=[attempt(-1)])[0] is HELD


def test_temporals_sdk_holds_heartbeats_back_so_silence_means_something_only_near_the_time_out() -> None:
    assert seen(sending(-4.4))[0] is HELD
    assert seen(sending(-4.6)) == (GONE, f"{LOST} 4.6 s ago; {ASKED}")


def test_the_step_after_a_lost_attempt_is_named_if_its_contract_is_known() -> None:
    found = assess(Facts(now=NOW, workflow=WorkflowView(True, "running", [sending(-4.6)])))
    assert found.sentence.endswith("then its doubt policy decides what follows (--app lets this command read it)")


def test_a_workflow_task_is_held_while_its_worker_asks_for_work() -> None:
    assert seen(thinking(-60)) == (HELD, "a workflow task runs at w1 for 3.0 s")
    assert seen(thinking()) == (HELD, "a workflow task runs at w1 for 3.0 s")
    condition, sentence = seen(thinking(-80))
    assert (condition, sentence.partition("; ")[2]) == (
        GONE,
        "Temporal waits until 12:00:07 UTC, then another worker goes on",
    )


def test_an_inline_attempt_is_held_until_its_time_is_over() -> None:
    assert seen(thinking(-60), attempts=[attempt(1)]) == (
        HELD,
        "a workflow task with send-mail: attempt 2 runs at w1 for 3.0 s",
    )
    condition, sentence = seen(thinking(-1), attempts=[attempt(-1)])
    assert condition is GONE
    assert sentence.endswith("another worker goes on; send-mail: it is in doubt, and find-mail is asked")


def test_a_task_that_no_worker_has_is_not_picked_up() -> None:
    waits = "a workflow task waits for a worker, for 4.0 s"
    assert seen(waiting(1)) == (NOT_PICKED_UP, waits)
    assert seen(waiting(0)) == (NOT_PICKED_UP, f"{waits}, and no worker polls q")
    waits = "a workflow task waits for a worker of build shop:1, for 4.0 s"
    assert seen(waiting(1, build="shop:1")) == (NOT_PICKED_UP, waits)
    assert seen(waiting(0, build="shop:1")) == (NOT_PICKED_UP, f"{waits}, and none polls q")
    assert "for the 7th time" in seen(waiting(1, tries=7))[1]
    assert seen(waiting(1), sending(-1))[0] is HELD


def test_a_start_or_a_message_that_waits_for_a_relay_is_not_picked_up() -> None:
    assert told(starts=at(-60), problem="Temporal is away") == (
        NOT_PICKED_UP,
        "its start waits for a relay, for 1 min: Temporal is away",
    )
    assert told(undelivered_since=at(-2)) == (NOT_PICKED_UP, "a message waits for a relay, for 2.0 s")
    assert told(undelivered_since=at(-2), attempts=[attempt(1)])[0] is HELD
    assert told(starts=at(-2), attempts=[attempt(1)])[0] is NOT_PICKED_UP


def test_without_temporal_the_record_tells_whether_an_attempt_can_be_under_way() -> None:
    assert told(attempts=[attempt(5)]) == (
        HELD,
        "send-mail: attempt 2 is on record for 10.0 s, and ends by 12:00:05 UTC",
    )
    assert told(attempts=[attempt(-5)]) == (
        GONE,
        "send-mail: attempt 2 should have ended 5.0 s ago, and has reported no result",
    )


def test_a_lost_attempt_that_the_workflow_waits_out_says_until_when() -> None:
    temporal_client = WorkflowView(True, "running", timers=[("send-mail: next step", at(9))])
    condition, sentence = told(workflow=temporal_client, attempts=[attempt(-5)])
    assert condition is GONE
    assert sentence.endswith("the workflow waits until 12:00:09 UTC, then it is in doubt, and find-mail is asked")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"attention": "send-mail is in doubt"}, "it waits for a person: send-mail is in doubt"),
        ({"later": at(86400)}, "it is to be started at 2026-07-02 12:00 UTC"),
        ({}, "it waits for a time, a message or a worker; Temporal's record shows which"),
        (
            {"workflow": WorkflowView(True, "running", timers=[("b", at(9)), ("a", at(8))])},
            "it waits until 12:00:08 UTC (a)",
        ),
        ({"workflow": WorkflowView(True, "running")}, "it waits for a message"),
        (
            {"workflow": WorkflowView(False, "absent"), "rejected": "no such lifecycle", "attention": "rejected: x"},
            "it waits for a person: rejected: no such lifecycle",
        ),
    ],
)
def test_a_waiting_entity_names_what_it_waits_for(facts: dict[str, Any], sentence: str) -> None:
    assert told(**facts) == (WAITS, sentence)


def test_an_open_entity_without_an_open_workflow_is_held_by_nobody() -> None:
    back = "`perdure retry` brings it back"
    assert told(workflow=WorkflowView(False, "terminated")) == (GONE, f"its workflow is terminated: {back}")
    assert told(workflow=WorkflowView(False, "absent"), attempts=[attempt(1)]) == (
        GONE,
        f"Temporal has no workflow of it: {back}",
    )


def test_a_finished_entity_is_finished_whatever_temporal_reports() -> None:
    ended = (Condition.FINISHED, "it ended as sent")
    assert seen(sending(-1), final="sent", undelivered_since=at(-1)) == ended
    assert told(final="sent", starts=at(-1), workflow=WorkflowView(False, "completed")) == ended
