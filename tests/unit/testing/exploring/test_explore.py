"""Explorations: random lifecycles and our own keep their promises, and one that is broken is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activities.comments.contracts import Comment
from activities.mail.contracts.mail import SEND_MAIL, Accepted
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Expired, GaveUp
from perdure.errors import DeclarationError
from perdure.testing import ExplorationFailed, ScenarioEnd, ScriptError, explore, server_watch
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.judge import judge_keys
from perdure.testing.exploring.programs import NAME, Program
from perdure.testing.exploring.scenario import Event, Fault, Scenario
from perdure.testing.server_watch import RunawayWorkflow
from tests.apps.endless import Endless
from tests.apps.magazines import Issues, Magazine, Reader, charge_month, say_goodbye
from tests.apps.orders import (
    CHARGE,
    GREET,
    Approved,
    Charge,
    Confirmed,
    Drawing,
    Greeting,
    Hasty,
    Order,
    OrderLifecycle,
    Stage,
    Unkept,
)
from workflows.comments.comment_notification import CommentNotification

SEEDS = range(40)
"""In 19, a local activity times out. In 11 and 18, a worker is stopped that performs activities."""
ORDER = Order(number=1)
RECEIPT = {CHARGE: Charge(id="ch_1")}
MAGAZINE = {charge_month: "charge", say_goodbye: None}
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


def trace(seed: int) -> str:
    explorer = of_random_lifecycles()
    return explorer.world(explorer.scenario(seed)).trace.hexdigest()


def read(path: Path) -> Scenario:
    kept = json.loads(path.read_text())["scenario"]
    kept |= {
        "given": Program.model_validate(kept["given"]),
        "faults": tuple(Fault(**each) for each in kept["faults"]),
        "events": tuple(Event(**each) for each in kept["events"]),
        "builds": tuple(kept["builds"]),
    }
    return Scenario(**kept)


def test_random_lifecycles_keep_every_promise() -> None:
    explore(runs=150)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_scenario_of_the_corpus_breaks_a_promise_again(path: Path) -> None:
    assert of_random_lifecycles().play(read(path)) == []


def test_an_effect_whose_receipt_did_not_fit_expires_once_the_database_has_lost_its_record() -> None:
    given = Program(steps=[["perform", "scan", "p1", {"large": True, "expires": 60}]])
    events = (Event(10.0, "restore", 2.0), Event(120.0, "deploy"))
    world = of_random_lifecycles().world(Scenario(seed=1, given=given, events=events, builds=(0,)))
    (end,) = world.observed.results["explored/1/scan/p1"]
    assert (type(end.end), end.in_doubt) == (Expired, True)
    assert end.at < 1 + 60


def test_what_has_given_up_gives_up_again_in_a_recovered_run_whose_worker_is_lost_before_it() -> None:
    steps = [["perform", "dedupe", "p1", {"then": "s1"}], ["perform", "escalate-limited", "p2", {}]]
    given = Program(steps=[*steps, ["save"], ["until", 200]])
    one = Scenario(
        seed=1,
        given=given,
        calls={"escalate-limited": ["not done"]},
        faults=(Fault("before the commit", 6, "kill", 35.0),),
        events=(Event(30.0, "lose Temporal", 3.0),),
        builds=(0, 0),
    )
    observed = of_random_lifecycles().world(one).observed
    assert observed.workers_lost
    assert observed.from_record
    assert [type(each.end) for each in observed.results["explored/1/escalate-limited/p2"]] == [GaveUp, GaveUp]


def test_the_branches_of_a_task_group_are_cancelled_in_the_same_order_each_time() -> None:
    branches = [[["until", 50 + number]] for number in range(8)]
    given = Program(steps=[["within", 1, [["group", branches]]]])
    one = Scenario(seed=1, given=given, builds=(0,))
    assert len({of_random_lifecycles().world(one).trace.hexdigest() for _ in range(4)}) == 1


def test_a_comment_notification_keeps_every_promise() -> None:
    comment = Comment(id=1, post_id=1, author="ann", body="hello", recipient="bob@example.org")
    explore(CommentNotification, comment, other_side={SEND_MAIL: Accepted(queue_id="4F2")}, once=[SEND_MAIL], runs=60)


def test_an_order_keeps_every_promise() -> None:
    explore(OrderLifecycle, ORDER, other_side=RECEIPT, messages=[("pack", "ann")], once=[CHARGE], runs=60)


def test_an_order_whose_charge_a_message_confirms_keeps_every_promise() -> None:
    messages = [("charged", Charge(id="ch_1"))]
    explore(Confirmed, ORDER, other_side=RECEIPT, messages=messages, once=[CHARGE], runs=60)


def test_an_order_that_needs_more_messages_than_are_listed_keeps_every_promise() -> None:
    explore(Approved, Order(number=6), messages=[("approve", "person {}".format)], runs=60)


def test_an_order_that_needs_other_messages_than_are_listed_is_found() -> None:
    found = r"stands still: .*, after 4 messages\n.* list more of them in `messages`"
    with pytest.raises(ExplorationFailed, match=found):
        explore(Approved, Order(number=2), messages=[("approve", "ann")])


def test_a_magazine_of_some_months_whose_effects_have_their_own_bodies_keeps_every_promise() -> None:
    explore(Magazine, Reader(months=4), other_side=MAGAZINE, messages=[("stop", None)], runs=24)


def test_an_order_that_is_charged_under_another_key_after_a_doubt_is_found() -> None:
    with pytest.raises(ExplorationFailed, match="done twice: charge") as failed:
        explore(Hasty, ORDER, other_side=RECEIPT, once=[CHARGE])
    assert len(failed.value.scenario.events + failed.value.scenario.faults) <= 1


def test_an_order_that_keeps_a_message_in_a_variable_of_its_run_is_found() -> None:
    with pytest.raises(ExplorationFailed, match="stands still") as failed:
        explore(Unkept, ORDER, other_side=RECEIPT, messages=[("pack", "ann")])
    assert failed.value.scenario.renews or failed.value.scenario.events


def test_an_effect_under_a_key_of_another_generation_is_found() -> None:
    once = Scenario(seed=1, given=Program(steps=[["perform", "dedupe", "p1", {}]]), restarts=1)
    world = of_random_lifecycles().world(once)
    assert world.findings == []
    kinds = [each.kind for each in judge_keys(world.observed.results, Entity(NAME, "1", 1), since=0.0)]
    assert kinds == ["key of another round"]


def test_temporals_clock_does_not_jump_where_the_database_is_restored() -> None:
    explorer = of_random_lifecycles()
    events = [{each.what for each in explorer.scenario(seed).events} for seed in range(3000)]
    assert any("restore" in each for each in events)
    assert any("Temporal's clock" in each for each in events)
    assert not any({"restore", "Temporal's clock"} <= each for each in events)


def test_an_effect_that_its_policy_repeats_is_found_where_it_may_happen_once() -> None:
    with pytest.raises(ExplorationFailed, match=r"done twice: greet: as greet, by its policy Repeat\(\)"):
        explore(Greeting, "ann", other_side={GREET: None}, once=[GREET])


def test_an_order_that_ends_as_its_author_rules_out_is_found() -> None:
    def check(end: ScenarioEnd) -> None:
        assert end.state != Stage.FAILED or not end.done(CHARGE), "failed, and was charged"

    with pytest.raises(ExplorationFailed, match="the check fails: failed, and was charged"):
        explore(OrderLifecycle, ORDER, other_side=RECEIPT, messages=[("pack", "ann")], check=check)


def test_a_magazine_that_forgets_a_message_in_a_new_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Magazine, "snapshot", lambda magazine: Issues(month=magazine.month))
    given = of_lifecycle(Magazine, Reader(months=4), MAGAZINE, [("stop", None)], [])
    assert any(
        each.kind == "a new run goes another way"
        for seed in range(7, 60, 8)
        for each in given.play(given.scenario(seed))
    )


def test_what_happens_to_a_magazine_happens_in_each_of_its_months() -> None:
    explorer = of_lifecycle(Magazine, Reader(months=4), MAGAZINE, [], [])
    months = {int(each.at / 86_400) // 30 for seed in range(200) for each in explorer.scenario(seed).events}
    assert {0, 1, 2, 3} <= months


def test_code_that_draws_random_numbers_is_refused_as_by_a_worker() -> None:
    with pytest.raises(DeclarationError, match=r"orders.py:\d+.* use workflow.random"):
        explore(Drawing, ORDER, other_side=RECEIPT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((OrderLifecycle, ORDER), r"other_side has no receipt for Effect\('charge'\): give one"),
        ((ORDER,), "is no lifecycle: give a subclass of Lifecycle"),
        ((OrderLifecycle, "a book", RECEIPT), "given: order: the input does not fit"),
        ((OrderLifecycle, ORDER, {CHARGE: "ch_1"}), r"'ch_1' is no receipt of Effect\('charge'\)"),
        ((OrderLifecycle, ORDER, {CHARGE: lambda given: given.id}), r"the function for Effect\('charge'\) raised Attr"),
        ((OrderLifecycle, ORDER, RECEIPT | {GREET: None}), r"Effect\('greet'\) is no contract of the lifecycle"),
        ((OrderLifecycle, ORDER, RECEIPT, [], [GREET]), r"once: Effect\('greet'\) is no effect of the lifecycle"),
        ((OrderLifecycle, ORDER, RECEIPT, [("pakc", None)]), "no handler for the signal 'pakc'; did you mean 'pack'"),
        ((OrderLifecycle, ORDER, RECEIPT, [("pack", None)]), "the payload of 'pack' does not fit"),
        ((OrderLifecycle, ORDER, RECEIPT, ["pack"]), "'pack' is no pair of a name and a payload"),
        ((None, ORDER), "without a lifecycle takes no other argument than seed and runs"),
        ((OrderLifecycle, ORDER, RECEIPT, [], [], 0), "runs=0 plays nothing"),
    ],
)
def test_what_does_not_fit_is_named(arguments: tuple[Any, ...], message: str) -> None:
    names = ("lifecycle", "given", "other_side", "messages", "once", "runs")
    with pytest.raises(ScriptError, match=message):
        explore(**dict(zip(names, arguments, strict=False)))


def test_a_loop_that_never_waits_ends_the_exploration_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "LONGEST", 0.5)
    with pytest.raises(RunawayWorkflow, match=r"too long without waiting(.|\n)*while not await self\.wait_for"):
        explore(Endless, "x", runs=1)


async def test_where_a_loop_runs_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="call it from a test that is no coroutine"):
        explore(OrderLifecycle, ORDER, other_side=RECEIPT)


def test_the_same_seed_plays_the_same_bytes_in_every_process() -> None:
    here = [trace(seed) for seed in SEEDS]
    assert len(set(here)) == len(here)
    program = f"from {__name__} import *; print(*(trace(seed) for seed in SEEDS))"
    for hash_seed in ("1", "2"):
        played = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert played.stdout.split() == here
