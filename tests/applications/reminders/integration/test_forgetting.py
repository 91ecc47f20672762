"""`perdure forget` of a patient reaches the doses, those that were not started, and the row."""

from __future__ import annotations

import json
import secrets

from tests.applications.reminders.conftest import Clinic
from tests.applications.reminders.integration.test_patients import TOMORROW, ZONE, soon
from tests.erasing import forget, places

APP = "workers.reminders.app:app"


async def test_a_patient_is_forgotten_with_every_dose(clinic: Clinic) -> None:
    mark, phone = f"Mark3d{secrets.token_hex(6)}", f"+1202{secrets.randbelow(10**7):07}"
    id, plan = soon()
    drug = {"rules": [{**plan["rules"][0], "what": mark}, {**TOMORROW, "id": "n", "what": mark}]}
    await clinic.sign_up(id, drug, ZONE, phone=phone)
    await clinic.sign_up(f"{id}/7", {"rules": [{**TOMORROW, "id": "n", "what": "x"}]}, ZONE, phone="+12025550100")
    await clinic.sent(id, 1)
    await clinic.db.execute(
        "select reminders.not_start($1, $2)",
        *(id, json.dumps([{"rule": "m", "due": "2020-01-01T08:00", "state": "expired", "why": mark}])),
    )
    [dose] = await clinic.db.fetch("select id from perdure.ident where lifecycle = 'dose'")
    await clinic.db.execute("update reminders.patient set signed_off = true where id = $1", id)
    assert await clinic.world.ended("dosage-reminders", id) == "ended"
    for lifecycle, each in (("dosage-reminders", id), ("dose", dose["id"])):
        await clinic.world.completed(lifecycle, each)
    for text in (mark, phone):
        assert {"reminders.patient", f"dosage-reminders/{id}", f"dose/{dose['id']}"} <= await places(clinic.world, text)

    status, told = await forget(clinic.world, "dosage-reminders", id, "--app", APP)
    assert status == 0, told
    assert f"forgot dosage-reminders/{id} and what belongs to it (1 of dose)" in told
    assert "the app's rows: 1 of reminders.patient\n" in told
    assert "not reached: the telephony provider" in told
    await clinic.db.execute("vacuum analyze")
    assert [await places(clinic.world, text) for text in (mark, phone)] == [set(), set()]
    assert [row["id"] for row in await clinic.db.fetch("select id from reminders.patient")] == [f"{id}/7"]
    assert (await clinic.world.client.status("dosage-reminders", f"{id}/7")).state == "active"
