"""The record of an entity becomes the memo of a run that has no history, and keeps its age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure._store.record import Doubt, Record, carried_from
from perdure._wire.carried import HowNotPerformed, Remembered, Unsettled
from perdure._wire.terms import all_terms
from perdure._wire.writes import EffectView
from perdure.contracts.effects import Effect
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import Escalate, Repeat

READ_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_doubt_is_as_old_as_its_record_however_long_the_run_waits_for_a_worker() -> None:
    view = EffectView(status=EffectStatus.IN_DOUBT, token="t1", attempts=1, in_flight=5, in_doubt_for=60)
    doubt = Doubt(key="sale/a/charge", view=view)
    began = READ_AT - timedelta(hours=1)
    record = Record(at=READ_AT, state="charging", since=began, created_at=began, doubts=[doubt])
    carried = carried_from(record, generation=0, version=7, terms={})
    assert (carried.unsettled[doubt.key].known.effect, carried.unsettled[doubt.key].seen_at) == (view, READ_AT)


TERMS = all_terms([Effect[str, str]("charge", timeout=timedelta(seconds=5), doubt=Repeat())])


def carried(*, ended: bool = False, number: int = 0, again: int = 0) -> Unsettled:
    """What is carried of a doubt about `charge/1%`, of which the newest key has the number `again`."""
    key = "sale/a/charge/1%25" + (f"~{number}" if number else "")
    record = Record(
        at=READ_AT,
        state="charging",
        since=READ_AT,
        created_at=READ_AT,
        again={"charge/1%": again},
        doubts=[Doubt(key=key, view=EffectView(status=EffectStatus.IN_DOUBT, token="t1"))],
        memory=Remembered(ended={key: HowNotPerformed(slot="charge/1%", kind="Expired", why="late")} if ended else {}),
    )
    return carried_from(record, generation=0, version=7, terms=TERMS).unsettled[key]


def test_a_doubt_that_only_the_record_knows_waits_for_a_person_where_run_does_not_come_back_to_it() -> None:
    left = carried()
    assert (left.effect, left.suffix) == ("charge", "1%")
    assert left.own is not None
    assert left.own.doubt == Escalate()
    assert carried(number=2, again=2).effect == "charge"


def test_a_doubt_that_was_reported_or_has_a_newer_key_waits_for_nobody() -> None:
    assert carried(ended=True).effect is None
    assert carried(again=1).effect is None
