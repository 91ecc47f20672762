"""What a run goes on from that has no history: made of the entity's record, as old as that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.contracts.outcomes import Status
from perdure.recovering.record import Doubt, Record, carried_from
from perdure.store.writes import EffectView

READ_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_doubt_is_as_old_as_its_record_however_long_the_run_waits_for_a_worker() -> None:
    view = EffectView(status=Status.IN_DOUBT, token="t1", attempts=1, in_flight=5, in_doubt_for=60)
    doubt = Doubt(key="sale/a/charge", view=view)
    began = READ_AT - timedelta(hours=1)
    record = Record(at=READ_AT, state="charging", since=began, created_at=began, doubts=[doubt])
    carried = carried_from(record, round=0, version=7, terms={})
    assert (carried.unsettled[doubt.key].known.effect, carried.unsettled[doubt.key].seen_at) == (view, READ_AT)
