"""`decide` as a table: the next step for each policy, status and piece of knowledge."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import AskFirst, Dedupe, Effect, Escalate, Lookup, Repeat, RetryPolicy
from perdure._wire.known import Known
from perdure._wire.writes import EffectView
from perdure._workflow.decision import SOON, Again, Ask, Decision, Look, Park, Record, Settled, decide
from perdure.contracts import EffectStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AT_ONCE = timedelta(0)
ABSENT, ATTEMPTING, NOT_DONE, IN_DOUBT = (
    EffectStatus.ABSENT,
    EffectStatus.ATTEMPTING,
    EffectStatus.NOT_DONE,
    EffectStatus.IN_DOUBT,
)
REFUSED = EffectStatus.REFUSED
FIND = Lookup[str, int]("find")

POLICIES: dict[str, Any] = {
    "repeat": Repeat(),
    "escalate": Escalate(),
    "dedupe": Dedupe(window=timedelta(seconds=100), margin=timedelta(seconds=10)),
    "dedupe or repeat": Dedupe(window=timedelta(seconds=100), margin=timedelta(seconds=10), otherwise=Repeat()),
    "lookup": AskFirst(FIND, visibility_delay=timedelta(seconds=30), misses=2, tries=3, every=timedelta(seconds=1)),
    "lookup or repeat": AskFirst(FIND, visibility_delay=timedelta(seconds=30), misses=2, tries=3, otherwise=Repeat()),
}
EFFECTS = {
    name: Effect[str, int](
        name.replace(" ", "-"),
        timeout=timedelta(seconds=20),
        doubt=policy,
        retry=RetryPolicy(jitter=0, maximum_attempts=5),
    )
    for name, policy in POLICIES.items()
}


def known(status: EffectStatus, *, in_flight: float = -60, in_doubt_for: float = 0, **more: Any) -> Known:
    return Known(EffectView(status=status, in_flight=in_flight, in_doubt_for=in_doubt_for), **more)


@pytest.mark.parametrize("policy", EFFECTS)
@pytest.mark.parametrize(
    ("what", "step"),
    [
        (Known(), Again(AT_ONCE)),
        (known(ABSENT, failures=1), Again(timedelta(seconds=1))),
        (known(NOT_DONE, failures=1), Again(timedelta(seconds=1))),
        (known(NOT_DONE, failures=3), Again(timedelta(seconds=4))),
        (known(NOT_DONE, failures=1, retry_after=timedelta(seconds=90)), Again(timedelta(seconds=90))),
        (known(NOT_DONE, failures=3, retry_after=timedelta(seconds=2)), Again(timedelta(seconds=4))),
        (known(NOT_DONE, failures=5), Settled(NOT_DONE, gave_up=True)),
        (known(ABSENT, failures=5), Settled(ABSENT, gave_up=True)),
        (known(EffectStatus.DONE), Settled(EffectStatus.DONE)),
        (known(EffectStatus.DONE, failures=5), Settled(EffectStatus.DONE)),
        (known(EffectStatus.REFUSED), Settled(EffectStatus.REFUSED)),
        (known(EffectStatus.ABANDONED), Settled(EffectStatus.ABANDONED)),
        (known(IN_DOUBT, different=True), Settled(IN_DOUBT, different=True)),
        (known(NOT_DONE, different=True), Settled(NOT_DONE, different=True)),
    ],
)
def test_without_a_doubt_the_doubt_policy_does_not_matter(policy: str, what: Known, step: Decision) -> None:
    assert decide(EFFECTS[policy], what, now=NOW) == step


@pytest.mark.parametrize("policy", EFFECTS)
@pytest.mark.parametrize("status", [ABSENT, NOT_DONE, IN_DOUBT, ATTEMPTING])
def test_an_effect_past_its_time_has_expired(policy: str, status: EffectStatus) -> None:
    what = known(status, failures=1, read=True)
    assert decide(EFFECTS[policy], what, now=NOW, expires_at=NOW) == Settled(status, expired=True)
    assert decide(EFFECTS[policy], what, now=NOW, expires_at=NOW + timedelta(seconds=1)) != Settled(
        status, expired=True
    )


@pytest.mark.parametrize("policy", EFFECTS)
def test_an_effect_whose_attempts_have_failed_gave_up_before_and_after_its_time(policy: str) -> None:
    what = known(NOT_DONE, failures=5, read=True)
    for expires_at in (NOW, NOW + timedelta(seconds=1)):
        assert decide(EFFECTS[policy], what, now=NOW, expires_at=expires_at) == Settled(NOT_DONE, gave_up=True)


def test_a_look_up_without_an_end_of_tries_goes_on_less_and_less_often_and_parks_nobody() -> None:
    doubt = AskFirst(FIND, visibility_delay=timedelta(seconds=30), tries=None, every=timedelta(seconds=1))
    effect = Effect[str, int]("asked-on", timeout=timedelta(seconds=20), doubt=doubt)
    pauses = []
    for asked in (1, 5, 9, 1000):
        step = decide(effect, known(IN_DOUBT, asked=asked, unanswered=asked), now=NOW)
        assert isinstance(step, Ask)
        pauses.append(step.pause.total_seconds())
    assert pauses == [1, 16, 256, 256]
    # Once it has answered that it has nothing, the next answer settles it: that is not waited for so long.
    assert decide(effect, known(IN_DOUBT, asked=9, misses=0), now=NOW) == Ask(timedelta(seconds=256))
    patient = AskFirst(FIND, visibility_delay=timedelta(seconds=30), misses=2, tries=None, every=timedelta(seconds=1))
    effect = Effect[str, int]("asked-twice", timeout=timedelta(seconds=20), doubt=patient)
    assert decide(effect, known(IN_DOUBT, asked=9, misses=1), now=NOW) == Ask(timedelta(seconds=16))


@pytest.mark.parametrize("status", [EffectStatus.DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED])
def test_a_settled_effect_does_not_expire(status: EffectStatus) -> None:
    assert decide(EFFECTS["repeat"], known(status), now=NOW, expires_at=NOW - timedelta(seconds=1)) == Settled(status)


PARK_NOW = Park(AT_ONCE)


@pytest.mark.parametrize("status", [IN_DOUBT, ATTEMPTING])
@pytest.mark.parametrize(
    ("policy", "what", "step"),
    [
        ("repeat", {}, Again(AT_ONCE)),
        ("repeat", {"failures": 2}, Again(timedelta(seconds=2))),
        # twice is harmless, so nobody counts: a doubt never ends in giving up
        ("repeat", {"failures": 9}, Again(timedelta(seconds=256))),
        ("escalate", {}, PARK_NOW),
        ("escalate", {"in_flight": 20.0}, Park(timedelta(seconds=20))),
        ("escalate", {"in_flight": 20.0, "age": timedelta(seconds=5)}, Park(timedelta(seconds=15))),
        ("dedupe", {"failures": 1, "in_doubt_for": 20}, Again(timedelta(seconds=1), within=timedelta(seconds=70))),
        # 100 s of window: 20 s of call, 10 s of margin and 1 s of pause must fit before its end
        ("dedupe", {"failures": 1, "in_doubt_for": 68.9}, Again(timedelta(seconds=1), within=timedelta(seconds=70))),
        ("dedupe", {"failures": 1, "in_doubt_for": 69}, PARK_NOW),
        ("dedupe", {"failures": 1, "in_doubt_for": 68, "age": timedelta(seconds=1)}, PARK_NOW),
        ("dedupe", {"failures": 1, "in_doubt_for": 20, "retry_after": timedelta(seconds=60)}, PARK_NOW),
        ("dedupe or repeat", {"failures": 1, "in_doubt_for": 69}, Again(timedelta(seconds=1))),
        # the last attempt that may fail has ended in a definite no, and says nothing about the one before it
        ("repeat", {"failures": 5, "last": NOT_DONE}, Settled(IN_DOUBT, gave_up=True)),
        ("repeat", {"failures": 5, "spared": 1, "last": NOT_DONE}, Again(timedelta(seconds=16))),
        ("dedupe", {"failures": 5, "last": NOT_DONE}, PARK_NOW),
        ("dedupe or repeat", {"failures": 5, "last": NOT_DONE}, Settled(IN_DOUBT, gave_up=True)),
        ("lookup", {"failures": 5, "last": NOT_DONE}, Ask(AT_ONCE)),
        ("escalate", {"failures": 5, "last": NOT_DONE}, PARK_NOW),
        ("repeat", {"failures": 2, "last": REFUSED}, Settled(IN_DOUBT, refused=True)),
        ("dedupe", {"failures": 2, "last": REFUSED}, Settled(IN_DOUBT, refused=True)),
        # it answers the attempt before once that is not under way any more
        (
            *("dedupe", {"failures": 2, "last": REFUSED, "in_flight": 5.0, "in_doubt_for": 15}),
            Again(timedelta(seconds=5), within=timedelta(seconds=70)),
        ),
        (
            *("dedupe", {"failures": 5, "last": REFUSED, "in_flight": 5.0}),
            Again(timedelta(seconds=5), within=timedelta(seconds=70)),
        ),
        (
            "dedupe",
            {"failures": 2, "last": REFUSED, "in_flight": 5.0, "in_doubt_for": 66},
            Settled(IN_DOUBT, refused=True),
        ),
        ("repeat", {"failures": 2, "last": REFUSED, "in_flight": 5.0}, Settled(IN_DOUBT, refused=True)),
        ("lookup", {}, Ask(AT_ONCE)),
        ("lookup", {"in_flight": 20.0}, Ask(AT_ONCE)),
        ("lookup", {"asked": 1}, Ask(timedelta(seconds=1))),
        ("lookup", {"asked": 2}, Ask(timedelta(seconds=2))),
        ("lookup", {"asked": 9}, Ask(timedelta(seconds=16))),
        # in any case when a miss begins to count: 4 s of flight and 30 s to settle, of which 30 have passed
        ("lookup", {"asked": 9, "in_flight": 4.0, "age": timedelta(seconds=30)}, Ask(timedelta(seconds=4))),
        ("lookup", {"asked": 1, "misses": 1}, Ask(timedelta(seconds=1))),
        ("lookup", {"asked": 4, "misses": 2}, Record("find looked 4 times and did not find it")),
        ("lookup", {"asked": 2, "unanswered": 2}, Ask(timedelta(seconds=2))),
        ("lookup", {"asked": 3, "unanswered": 3}, PARK_NOW),
        ("lookup", {"asked": 3, "unanswered": 3, "in_flight": 7.0}, Park(timedelta(seconds=7))),
        ("lookup or repeat", {"asked": 3, "unanswered": 3, "failures": 1}, Again(timedelta(seconds=1))),
    ],
)
def test_a_doubt_is_settled_as_the_policy_says(
    status: EffectStatus, policy: str, what: dict[str, Any], step: Decision
) -> None:
    if isinstance(step, Settled):
        step = replace(step, status=status)
    assert decide(EFFECTS[policy], known(status, **what), now=NOW) == step


@pytest.mark.parametrize("policy", EFFECTS)
@pytest.mark.parametrize("status", [ABSENT, NOT_DONE, IN_DOUBT, ATTEMPTING])
def test_an_expiry_is_believed_only_after_the_fence_was_read(policy: str, status: EffectStatus) -> None:
    assert decide(EFFECTS[policy], known(status), now=NOW, expires_at=NOW) == Look(AT_ONCE)


@pytest.mark.parametrize("policy", EFFECTS)
def test_an_attempt_that_was_not_made_costs_a_moment_and_no_back_off(policy: str) -> None:
    assert decide(EFFECTS[policy], known(NOT_DONE, failures=4, unmade=True), now=NOW) == Again(SOON)


@pytest.mark.parametrize("policy", ["repeat", "dedupe", "dedupe or repeat"])
def test_an_attempt_that_may_be_under_way_elsewhere_is_not_overtaken_by_another(policy: str) -> None:
    # another execution of the same attempt: it may tell within a moment
    assert decide(EFFECTS[policy], known(ATTEMPTING, in_flight=20), now=NOW) == Look(SOON)
    assert decide(EFFECTS[policy], known(ATTEMPTING, in_flight=0.01), now=NOW) == Look(timedelta(seconds=0.01))
    # Temporal said that this one is lost, and the other side bears two of them
    within = None if policy == "repeat" else timedelta(seconds=70)
    assert decide(EFFECTS[policy], known(IN_DOUBT, in_flight=20), now=NOW) == Again(AT_ONCE, within)


@pytest.mark.parametrize(("luck", "pause"), [(-1.0, 3.2), (0.0, 4.0), (1.0, 4.8)])
def test_luck_places_a_pause_inside_its_jitter(luck: float, pause: float) -> None:
    effect = Effect[str, int]("jittery", timeout=timedelta(seconds=1), doubt=Repeat(), retry=RetryPolicy(jitter=0.2))
    assert decide(effect, known(NOT_DONE, failures=3), now=NOW, luck=luck) == Again(timedelta(seconds=pause))


@pytest.mark.parametrize(("failures", "pause"), [(1, 1), (2, 3), (3, 9), (4, 10), (2_000, 10)])
def test_the_back_off_grows_up_to_its_cap(failures: int, pause: float) -> None:
    retry = RetryPolicy(
        initial_interval=timedelta(seconds=1), backoff_coefficient=3, maximum_interval=timedelta(seconds=10), jitter=0
    )
    effect = Effect[str, int]("capped", timeout=timedelta(seconds=1), doubt=Repeat(), retry=retry)
    assert decide(effect, known(NOT_DONE, failures=failures), now=NOW) == Again(timedelta(seconds=pause))


def test_without_a_maximum_it_never_gives_up() -> None:
    effect = Effect[str, int]("patient", timeout=timedelta(seconds=1), doubt=Repeat(), retry=RetryPolicy(jitter=0))
    assert decide(effect, known(NOT_DONE, failures=10_000), now=NOW) == Again(timedelta(minutes=5))
