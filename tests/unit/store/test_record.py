"""The record of an entity becomes the memo of a run that has no history, and keeps its age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure._store.record import Doubt, Record, carried_from
from perdure._wire.carried import Carried, HowNotPerformed, Remembered, Unsettled
from perdure._wire.terms import all_terms
from perdure._wire.writes import EffectView
from perdure.contracts.effects import Effect
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import Escalate, Repeat

READ_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_doubt_is_as_old_as_its_record_however_long_the_run_waits_for_a_worker() -> None:
    view = EffectView(status=EffectStatus.IN_DOUBT, token="t1", attempts=1, in_flight=5, in_doubt_for=60)
    left = Doubt(key="sale/a/charge", view=view)
    began = READ_AT - timedelta(hours=1)
    record = Record(at=READ_AT, state="charging", since=began, created_at=began, doubts=[left])
    found = carried_from(record, generation=0, version=7, terms={})
    assert (found.unsettled[left.key].known.effect, found.unsettled[left.key].seen_at) == (view, READ_AT)


TERMS = all_terms([Effect[str, str]("charge", timeout=timedelta(seconds=5), doubt=Repeat())])


def carried(*, ended: HowNotPerformed | None = None, number: int = 0, again: int = 0) -> Carried:
    """What a run gets that continues while `charge/1%` is in doubt, and its newest key has the number `again`."""
    key = "sale/a/charge/1%25" + (f"~{number}" if number else "")
    record = Record(
        at=READ_AT,
        state="charging",
        since=READ_AT,
        created_at=READ_AT,
        again={"charge/1%": again},
        doubts=[Doubt(key=key, view=EffectView(status=EffectStatus.IN_DOUBT, token="t1"))],
        memory=Remembered(ended={key: ended} if ended else {}),
    )
    return carried_from(record, generation=0, version=7, terms=TERMS)


def doubt(found: Carried) -> Unsettled:
    (left,) = found.unsettled.values()
    return left


def test_a_doubt_that_only_the_record_knows_waits_for_a_person_where_run_does_not_come_back_to_it() -> None:
    left = doubt(carried())
    assert (left.effect, left.suffix) == ("charge", "1%")
    assert left.own is not None
    assert left.own.doubt == Escalate()
    assert doubt(carried(number=2, again=2)).effect == "charge"


def test_a_doubt_that_was_reported_or_has_a_newer_key_waits_for_nobody() -> None:
    expired = HowNotPerformed(slot="charge/1%", kind="Expired", why="late", in_doubt=True)
    assert doubt(carried(ended=expired)).effect is None
    assert doubt(carried(again=1)).effect is None


def test_a_doubt_about_an_attempt_after_the_end_of_its_effect_takes_the_place_of_the_end() -> None:
    found = carried(ended=HowNotPerformed(slot="charge/1%", kind="GaveUp", why="busy"))
    assert (doubt(found).effect, found.ended) == ("charge", {})
