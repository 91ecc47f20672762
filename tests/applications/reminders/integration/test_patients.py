"""Patients on a real server: bad records beside good ones, what the app does to a row, and a worker that dies."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.reminders.contracts.calendar.spread import spread_of
from activities.reminders.contracts.plan import Due, Rule
from tests.applications.reminders.conftest import Clinic, a_plan
from tests.applications.reminders.integration.test_documented import AGAIN

ZONE = "Africa/Accra"
TOMORROW = {"rule": "FREQ=DAILY", "start": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}T08:00"}


def soon(seconds: float = 2.0) -> tuple[str, Any]:
    """A patient's id, and a plan of one dose: it was due at the last full minute, and goes so many seconds from now,
    which the id decides: it is sought until that is so. If half of them pass meanwhile, with twice as many."""
    now = datetime.now(UTC)
    due = now.replace(second=0, microsecond=0)
    given = {"id": "m", "rule": "FREQ=DAILY;COUNT=1", "start": f"{due:%Y-%m-%dT%H:%M}", "what": "x", "spread": "PT59M"}
    rule, local = Rule.model_validate(given), due.replace(tzinfo=None)
    goes = (now + timedelta(seconds=seconds) - due) / timedelta(seconds=1)
    ids = (f"p{number}" for number in count())
    fits = (id for id in ids if 0 <= spread_of(id, rule, Due("m", local, due)).total_seconds() - goes < 1)
    found = next(fits)
    late = datetime.now(UTC) > now + timedelta(seconds=seconds / 2)
    return soon(2 * seconds) if late else (found, {"rules": [given]})


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
    "the plan has 600... bytes: give 600,000 at most": {"plan": {**a_plan(TOMORROW), "note": "x" * 599_900}},
    "is no recurrence rule of RFC 5545": {"plan": a_plan(TOMORROW | {"rule": "EACH-DAY"})},
    "there is no time zone 'Mars/Olympus'": {"plan": a_plan(TOMORROW), "zone": "Mars/Olympus"},
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_an_impossible_plan_is_refused_at_sign_up_with_the_reason(quiet_clinic: Clinic, reason: str) -> None:
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


async def test_a_new_plan_for_reminders_that_have_ended_is_refused_and_can_be_given_with_a_restart(
    clinic: Clinic,
) -> None:
    await clinic.sign_up("jo", a_plan(TOMORROW))
    await clinic.world.asked("dosage-reminders", "jo")
    await clinic.world.client.cancel("dosage-reminders", "jo", by="ann", note="moved away")
    assert await clinic.world.ended("dosage-reminders", "jo") == "ended"
    new = json.dumps(a_plan(TOMORROW | {"id": "new"}))
    with pytest.raises(asyncpg.CheckViolationError, match="have ended, so a new plan starts none"):
        await clinic.change("jo", plan=new)
    await clinic.change("jo", zone="Europe/Berlin")
    async with clinic.db.transaction():
        await clinic.db.execute("select perdure.restart('dosage-reminders', 'jo', 'ann', 'is back')")
        await clinic.change("jo", plan=new)
    await clinic.world.is_in("dosage-reminders", "jo", "active")


RESTART = """
    select perdure.restart('dosage-reminders', id, 'ann', 'is back', reminders.input(p))
    from reminders.patient p where id = 'jo'"""


async def test_a_patient_who_is_signed_up_again_is_paused_if_the_row_is_and_can_sign_off_again(clinic: Clinic) -> None:
    await clinic.sign_up("jo", a_plan(TOMORROW))
    await clinic.change("jo", phone="+12025550155", paused=True)
    for _ in range(2):
        await clinic.change("jo", signed_off=True)  # the second time, the row has it already
        with pytest.raises(asyncpg.CheckViolationError, match="'jo' has signed off"):
            await clinic.change("jo", signed_off=False)  # also before the sign-off has arrived
        assert await clinic.world.ended("dosage-reminders", "jo") == "ended"
        assert (await clinic.patient("jo"))[0] == "ended"
        with pytest.raises(asyncpg.CheckViolationError, match="'jo' has signed off"):
            await clinic.change("jo", signed_off=False)
        await clinic.db.execute(RESTART)
        await clinic.world.is_in("dosage-reminders", "jo", "paused")
        assert (await clinic.patient("jo"))[0] == "paused"
    await clinic.change("jo", signed_off=False, paused=False)
    await clinic.world.is_in("dosage-reminders", "jo", "active")
    assert (await clinic.patient("jo"))[0] == "active"
    given = await clinic.db.fetchval("select input->>'phone' from perdure.entity where lifecycle = 'dosage-reminders'")
    assert given == "+12025550155"


async def test_a_patient_who_is_signed_up_again_is_shown_as_active(clinic: Clinic) -> None:
    await clinic.sign_up("jo", a_plan(TOMORROW))
    await clinic.change("jo", signed_off=True)
    assert await clinic.world.ended("dosage-reminders", "jo") == "ended"
    assert (await clinic.patient("jo"))[0] == "ended"
    await clinic.db.execute(AGAIN.replace("p-7421", "jo"))

    async def shown() -> bool:
        return (await clinic.patient("jo"))[0] == "active"

    await clinic.world.until(shown, "the row shows that its reminders are active again")


async def test_a_dose_that_is_not_started_is_in_the_view_until_it_is(quiet_clinic: Clinic) -> None:
    db = quiet_clinic.db
    left = '[{"rule": "m", "due": "2027-01-04T08:00", "state": "withdrawn", "why": "the patient had paused"}]'
    for _ in range(2):
        await db.execute("select reminders.not_start('jo', $1)", left)
    assert [tuple(each) for each in await quiet_clinic.doses("jo")] == [
        ("m", "2027-01-04 08:00:00", "withdrawn", "the patient had paused")
    ]
    await db.execute("select perdure.start('dose', 'jo/m/2027-01-04T08:00', '{}')")
    assert [each["state"] for each in await quiet_clinic.doses("jo")] == ["due"]


async def test_an_entity_that_is_no_dose_of_a_patient_is_left_out(quiet_clinic: Clinic) -> None:
    db = quiet_clinic.db
    doses = [f"jo/m/{due}" for due in ("2024-02-29T08:00", "2030-12-31T23:59")] + ["clinic/jo/m/2027-01-04T08:00"]
    others = (
        "jo/m/2027-02-29T08:00",
        "jo/m/2027-13-01T08:00",
        "jo/m/soon",
        "jo/2027-01-04T08:00",
        "jo/m/2027-01-04Txx:00",
    )
    for id in (*doses, *others, "x", "/m/2027-01-04T08:00", "jo/m/0000-01-01T00:00", "jo/m/2027-01-04T08:60"):
        await db.execute("select perdure.start('dose', $1, '{}')", id)
    found = await db.fetch("select patient, rule, due::text from reminders.dose where due > '2020-01-01' order by due")
    assert [tuple(each) for each in found] == [
        ("jo", "m", "2024-02-29 08:00:00"),
        ("clinic/jo", "m", "2027-01-04 08:00:00"),
        ("jo", "m", "2030-12-31 23:59:00"),
    ]
    day = await db.fetch("select id, hour from reminders.doses_due('2027-01-04', '2027-01-05')")
    assert ("clinic/jo/m/2027-01-04T08:00", 8) in [tuple(each) for each in day]
    assert not {each["id"] for each in day} & {*others, "x"}


async def test_a_change_carries_its_time(quiet_clinic: Clinic) -> None:
    await quiet_clinic.sign_up("jo", a_plan(TOMORROW))
    began = datetime.now(UTC) - timedelta(seconds=1)
    await quiet_clinic.change("jo", zone="Europe/Berlin", paused=True)
    query = "select name, (payload->>'at')::timestamptz as at from perdure.message order by created_at, name"
    sent = await quiet_clinic.db.fetch(query)
    assert [each["name"] for each in sent] == ["changed", "pause"]
    assert all(began < each["at"] <= datetime.now(UTC) + timedelta(seconds=1) for each in sent)


async def test_a_worker_that_dies_when_it_has_started_a_dose_costs_nothing_and_doubles_nothing(
    quiet_clinic: Clinic, tmp_path: Path
) -> None:
    """Its turn is taken again; by then the dose is started, and is not started once more."""
    died, world = tmp_path / "died", quiet_clinic.world
    first = await world.spawn("tests.applications.reminders.dying:app", DIED=str(died))
    id, plan = soon()
    await quiet_clinic.sign_up(id, plan, ZONE)
    await first.gone()
    assert await world.db.fetchval("select count(*) from perdure.ident where lifecycle = 'dose'") == 1
    await world.spawn("tests.applications.reminders.dying:app", DIED=str(died))
    await quiet_clinic.sent(id, 1)

    async def reported() -> bool:
        return "through" in str((await world.asked("dosage-reminders", id)).how_far)

    await world.until(reported, "the turn is over")
    assert [each["state"] for each in await quiet_clinic.doses(id)] == ["sent"]
    assert list(quiet_clinic.telephony.references.values()) == [1]
