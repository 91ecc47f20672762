"""The audit of the chaos finds losses, duplicates and records that disagree, and passes good runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.testing.exploring.scenario import Finding as Judged
from tests.chaos.audit import EffectFacts, Facts, Verdict, audit
from tests.chaos.facts import WAYS
from tests.chaos.faults import Happened
from tests.chaos.fleet import End
from tests.chaos.plan import GENERATED, Fault
from tests.chaos.recovery import Step, clocks

KEY = "lookup/1/do-lookup"
EFFECT = EffectFacts(KEY, "done", accepted=1)
GOOD = Facts(
    lifecycle="lookup",
    id="1",
    kept=True,
    app_row=True,
    column="done",
    known=True,
    final="done",
    entity=None,
    finished=("done",),
    trail=("pending", "doing", "doing", "done"),
    workflow="COMPLETED",
    effects=(EFFECT,),
)
NOTHING = replace(
    GOOD,
    kept=False,
    app_row=False,
    column=None,
    known=False,
    final=None,
    finished=(),
    trail=(),
    workflow=None,
    effects=(),
)


def audited(*subjects: Facts, **left_over: int) -> Verdict:
    return audit(subjects, WAYS, left_over)


RANDOM = replace(
    GOOD,
    lifecycle=GENERATED,
    column="ended",
    final="ended",
    finished=("ended",),
    trail=("s0", "s1", "ended"),
    judged=(),
    effects=(
        EffectFacts(f"{GENERATED}/1/repeat/p1", "done", accepted=2),
        EffectFacts(f"{GENERATED}/1/look-up/p2", "refused"),
    ),
)


def test_a_good_run_has_no_findings() -> None:
    verdict = audited(GOOD, NOTHING, replace(GOOD, trail=("pending", "doing", "failed", "doing", "done")), outbox=0)
    assert verdict.findings == []
    assert verdict.ends == {"done": 2, "rolled back": 1}


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (replace(GOOD, known=False), "ident does not know it"),
        (replace(GOOD, final=None, entity="doing", workflow="RUNNING"), "has not ended"),
        (replace(GOOD, final=None, entity="doing", workflow="COMPLETED"), "has not ended"),
        (replace(GOOD, effects=(replace(EFFECT, accepted=0),)), "the other side has nothing of it"),
        (replace(GOOD, work=("has 3, of 4 acknowledged additions",)), "acknowledged additions"),
    ],
)
def test_a_loss_is_seen(wrong: Facts, what: str) -> None:
    [finding, *_] = audited(GOOD, wrong).findings
    assert (finding.kind, finding.who) == ("lost", "lookup/1")
    assert what in finding.what


@pytest.mark.parametrize(
    "wrong",
    [
        replace(GOOD, effects=(replace(EFFECT, accepted=2),)),
        replace(GOOD, effects=(EFFECT, replace(EFFECT, key=f"{KEY}~1"))),
        replace(GOOD, effects=(replace(EFFECT, accepted=3, late=1),)),
    ],
)
def test_a_duplicate_is_seen(wrong: Facts) -> None:
    verdict = audited(GOOD, wrong)
    assert [finding.kind for finding in verdict.findings] == ["twice"]
    assert KEY in verdict.findings[0].what
    assert not verdict.excluded


def test_a_finding_that_the_design_excludes_is_counted_apart_with_its_reason() -> None:
    repeated = replace(GOOD, lifecycle="repeat", effects=(replace(EFFECT, accepted=3),))
    frozen = replace(GOOD, effects=(replace(EFFECT, accepted=2, late=1),))
    dropped = replace(GOOD, lifecycle="dedupe", effects=(replace(EFFECT, dropped=4),))

    verdict = audited(repeated, frozen, dropped)

    assert verdict.findings == []
    assert sorted((why.split("(")[1], number) for why, number in verdict.excluded.items()) == [
        ("Dedupe)", 4),
        ("Repeat)", 2),
        ("frozen)", 1),
    ]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (replace(GOOD, entity="doing"), "entity still has it"),
        (replace(GOOD, finished=()), "finished says []"),
        (replace(GOOD, finished=("done", "done")), "finished says ['done', 'done']"),
        (replace(GOOD, finished=("expired",)), "finished says ['expired']"),
        (replace(GOOD, column="doing"), "the app's column says doing"),
        (replace(GOOD, app_row=False), "the app's row is not there"),
        (replace(GOOD, workflow="RUNNING"), "Temporal says RUNNING"),
        (replace(GOOD, workflow="FAILED"), "Temporal says FAILED"),
        (replace(GOOD, workflow=None), "Temporal says None"),
        (replace(GOOD, trail=("pending", "done")), "from pending to done"),
        (replace(GOOD, trail=("doing", "done")), "do not lead from pending"),
        (replace(GOOD, trail=("pending", "doing")), "do not lead from pending"),
        (replace(GOOD, effects=(replace(EFFECT, status="in_doubt"),)), "last effect is in_doubt"),
        (replace(GOOD, effects=(replace(EFFECT, key="x", accepted=0), EFFECT)), "x is done on record"),
        (
            replace(GOOD, effects=(replace(EFFECT, key="x", status="refused"), replace(EFFECT, accepted=0))),
            "refused on",
        ),
        (replace(GOOD, effects=(replace(EFFECT, key="x", status=None), replace(EFFECT, accepted=0))), "x is None on"),
    ],
)
def test_records_that_disagree_are_seen(wrong: Facts, what: str) -> None:
    findings = audited(wrong).findings
    assert "mismatch" in {finding.kind for finding in findings}
    assert [finding for finding in findings if what in finding.what]


@pytest.mark.parametrize(
    "wrong",
    [
        replace(NOTHING, known=True),
        replace(NOTHING, entity="pending"),
        replace(NOTHING, trail=("pending",)),
        replace(NOTHING, app_row=True),
        replace(NOTHING, workflow="RUNNING"),
        replace(NOTHING, effects=(replace(EFFECT, status=None),)),
        replace(NOTHING, effects=(replace(EFFECT, accepted=0),)),
    ],
)
def test_a_trace_of_what_was_rolled_back_is_seen(wrong: Facts) -> None:
    [finding] = audited(wrong).findings
    assert (finding.kind, finding.what[:15]) == ("mismatch", "was rolled back")


def test_rows_that_are_left_over_are_seen() -> None:
    [finding] = audited(GOOD, outbox=2, behind=0).findings
    assert (finding.kind, finding.who, finding.what) == ("left over", "outbox", "2 rows")


@pytest.mark.parametrize(
    ("end", "wrong"),
    [
        (End("worker-1", "SIGTERM", 0, True, ""), False),
        (End("worker-1", "SIGTERM", 134, True, ""), True),
        (End("worker-1", "SIGKILL", -9, True, ""), False),
        (End("worker-1", "", 1, False, "no PostgreSQL answers"), False),
        (End("worker-1", "", 1, True, ""), True),
        (End("worker-1", "", 0, True, ""), True),
    ],
)
def test_a_worker_that_ends_by_itself_or_does_not_stop_well_is_seen(end: End, wrong: bool) -> None:
    assert end.wrong is wrong


def test_recovery_is_the_time_until_those_in_flight_moved() -> None:
    happened = [Happened(Fault(0.0, "worker killed", "worker-1", 1.0), begun=10.0, over=11.0)]
    trails = {
        ("lookup", "moved"): [Step(8.0, False), Step(14.0, False), Step(30.0, True)],
        ("lookup", "moved at once"): [Step(9.9, False), Step(10.5, True)],
        ("lookup", "had ended"): [Step(8.0, False), Step(9.0, True)],
        ("lookup", "came later"): [Step(11.0, False), Step(12.0, True)],
        ("lookup", "waited for a person"): [Step(8.0, True), Step(40.0, False)],
        ("rest", "rested"): [Step(8.0, False), Step(50.0, True)],
    }
    [clock] = clocks(happened, trails)
    assert (clock.kind, clock.faults, clock.lifecycles, clock.longest) == ("worker killed", 1, 2, 4.0)


def test_of_a_generated_lifecycle_the_audit_says_what_the_judge_says() -> None:
    judged = Judged("done twice", f"{GENERATED}/1/look-up/p2: again after 1.0 s"), Judged("doubt forgotten", "p1")
    verdict = audited(RANDOM, replace(RANDOM, judged=judged))
    assert [each.kind for each in verdict.findings] == ["twice", "mismatch"]
    assert verdict.excluded == {"done again on purpose (Repeat)": 2}
    assert "finished says" in audited(replace(RANDOM, finished=())).findings[0].what
