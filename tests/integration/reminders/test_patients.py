"""Patients on a real server: bad records beside good ones, what the app does to a row, and a worker that dies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.contracts.calendar.spread import spread_of
from activities.contracts.plan import Due, Rule
from tests.integration.reminders.conftest import Clinic, a_plan

ZONE = "Africa/Accra"
TOMORROW = {"rule": "FREQ=DAILY", "start": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}T08:00"}


def soon(seconds: float = 2.0) -> tuple[str, Any]:
    """A patient's id, and a plan of one dose: it was due at the last full minute, and goes so many seconds from now,
    which the id decides: it is sought until that is so."""
    now = datetime.now(UTC)
    due = now.replace(second=0, microsecond=0)
    given = {"id": "m", "rule": "FREQ=DAILY;COUNT=1", "start": f"{due:%Y-%m-%dT%H:%M}", "what": "x", "spread": "PT59M"}
    rule, local = Rule.model_validate(given), due.replace(tzinfo=None)
    goes = (now + timedelta(seconds=seconds) - due) / timedelta(seconds=1)
    ids = (f"p{number}" for number in count())
    fits = (id for id in ids if 0 <= spread_of(id, rule, Due("m", local, due)).total_seconds() - goes < 1)
    return next(fits), {"rules": [given]}


async def test_a_bad_record_harms_nobody_else_and_says_in_its_own_state_what_is_wrong(clinic: Clinic) -> None:
    id, plan = soon()
    bad: dict[str, dict[str, Any]] = {
        "empty": {"plan": {"rules": []}, "zone": ZONE, "phone": "+12025550101"},
        "unparsable": {"plan": a_plan(TOMORROW | {"rule": "EACH-DAY"}), "zone": ZONE, "phone": "+12025550102"},
        "nowhere": {"plan": a_plan(TOMORROW), "zone": "Mars/Olympus", "phone": "+12025550103"},
        "no-phone": {"plan": a_plan(TOMORROW), "zone": ZONE, "phone": "12"},
    }
    await clinic.sign_up(id, plan, ZONE)
    for name, given in bad.items():
        await clinic.world.client.start("dosage-reminders", name, given)
    said = {}
    for name in bad:
        await clinic.world.is_in("dosage-reminders", name, "unusable")
        said[name] = str((await clinic.world.client.status("dosage-reminders", name)).attention)
    reasons = {"empty": "0 rules", "unparsable": "EACH-DAY", "nowhere": "Mars/Olympus", "no-phone": "phone"}
    assert [name for name, reason in reasons.items() if reason not in said[name]] == []
    assert not any("+1202" in each for each in said.values())
    await clinic.sent(id, 1)
    assert [each["state"] for each in await clinic.doses(id)] == ["sent"]


REFUSED: dict[str, dict[str, Any]] = {
    "the plan is empty": {"plan": {"rules": []}},
    "is no recurrence rule of RFC 5545": {"plan": a_plan(TOMORROW | {"rule": "EACH-DAY"})},
    "there is no time zone 'Mars/Olympus'": {"plan": a_plan(TOMORROW), "zone": "Mars/Olympus"},
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_what_can_not_work_is_refused_at_sign_up_with_the_reason(quiet_clinic: Clinic, reason: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=reason):
        await quiet_clinic.sign_up("jo", **REFUSED[reason])
    assert await quiet_clinic.db.fetchval("select count(*) from perdure.ident") == 0


async def test_an_id_signs_up_once(quiet_clinic: Clinic) -> None:
    await quiet_clinic.sign_up("jo", a_plan(TOMORROW))
    with pytest.raises(asyncpg.UniqueViolationError):
        await quiet_clinic.sign_up("jo", a_plan(TOMORROW))
    await quiet_clinic.db.execute("delete from reminders.patient")
    with pytest.raises(asyncpg.UniqueViolationError, match="the id 'jo' was used before"):
        await quiet_clinic.sign_up("jo", a_plan(TOMORROW))
    assert await quiet_clinic.db.fetchval("select count(*) from perdure.ident") == 1


async def test_a_new_phone_in_the_row_is_the_one_that_is_told(clinic: Clinic) -> None:
    id, plan = soon()
    await clinic.sign_up(id, plan, ZONE)
    await clinic.change(id, phone="+12025550199")
    await clinic.sent(id, 1)
    assert [each.form["To"] for each in clinic.telephony.accepted] == ["+12025550199"]


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
async def test_a_patient_who_is_gone_has_ended(clinic: Clinic, how: str) -> None:
    await clinic.sign_up("jo", a_plan(TOMORROW))
    await clinic.world.asked("dosage-reminders", "jo")
    if how == "cancelled":
        await clinic.world.client.cancel("dosage-reminders", "jo", by="ann", note="moved away")
    else:
        await clinic.db.execute("delete from reminders.patient")
    assert await clinic.world.ended("dosage-reminders", "jo") == "ended"
    state, why = await clinic.patient("jo")
    assert (state, why) == (("ended", "moved away") if how == "cancelled" else (None, "signed off"))


async def test_a_worker_that_dies_when_it_has_started_a_dose_costs_nothing_and_doubles_nothing(
    quiet_clinic: Clinic, tmp_path: Path
) -> None:
    """Its turn is taken again; by then the dose is started, and is not started once more."""
    died, world = tmp_path / "died", quiet_clinic.world
    first = await world.spawn("tests.apps.dying_reminders:app", DIED=str(died))
    id, plan = soon()
    await quiet_clinic.sign_up(id, plan, ZONE)
    await first.gone()
    assert await world.db.fetchval("select count(*) from perdure.ident where lifecycle = 'dose'") == 1
    await world.spawn("tests.apps.dying_reminders:app", DIED=str(died))
    await quiet_clinic.sent(id, 1)

    async def reported() -> bool:
        return "through" in str((await world.asked("dosage-reminders", id)).how_far)

    await world.until(reported, "the turn is over")
    assert [each["state"] for each in await quiet_clinic.doses(id)] == ["sent"]
    assert list(quiet_clinic.telephony.references.values()) == [1]
