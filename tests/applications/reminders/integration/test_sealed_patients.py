"""Whoever can write to the table of patients can't have one patient's sealed number or plan used for another one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from perdure import Entity
from perdure.encryption import Private
from tests.applications.reminders.conftest import Clinic
from tests.applications.reminders.integration.test_patients import TOMORROW, ZONE, soon
from tests.integration.crypto.fixtures import FIRST
from workers.reminders.app import app

NUMBER, OTHER = "+12025550101", "+12025550102"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", FIRST)
    monkeypatch.setenv("PERDURE_SEAL", "true")


def sealed(text: str, patient: str, field: str) -> str:
    """As an app seals what it writes into a patient's row."""
    return str(to_jsonable_python(Private(text).seal(Entity("dosage-reminders", patient), field)))


def plan_of(plan: dict[str, Any], what: str) -> dict[str, Any]:
    """The same plan with another text."""
    return {"rules": [{**rule, "what": what} for rule in plan["rules"]]}


async def test_a_sealed_value_reaches_its_own_patient(quiet_clinic: Clinic) -> None:
    id, plan = soon()
    async with quiet_clinic.world.worker(app):
        await quiet_clinic.sign_up(
            id, plan_of(plan, sealed("Aspirin", id, "what")), ZONE, phone=sealed(NUMBER, id, "phone")
        )
        await quiet_clinic.sent(id, 1)
    [message] = quiet_clinic.telephony.accepted
    assert (message.form["To"], "Aspirin" in message.form["Body"]) == (NUMBER, True)
    inputs = await quiet_clinic.db.fetch("select input::text from perdure.finished where lifecycle = 'dose'")
    assert [row["input"] for row in inputs if NUMBER in row["input"] or "Aspirin" in row["input"]] == []
    assert len(inputs) == 1


@pytest.mark.parametrize("field", ["phone", "what"])
async def test_a_sealed_value_copied_from_another_patients_row_reaches_nobody(quiet_clinic: Clinic, field: str) -> None:
    id, plan = soon()
    theirs = {"rules": [{"id": "m", "what": sealed("Aspirin", "victim", "what"), **TOMORROW}]}
    await quiet_clinic.sign_up("victim", theirs, ZONE, phone=sealed(NUMBER, "victim", "phone"))
    stolen = {
        "phone": "select phone from reminders.patient where id = 'victim'",
        "what": "select plan #>> '{rules,0,what}' from reminders.patient where id = 'victim'",
    }
    given = {"phone": sealed(OTHER, id, "phone"), "what": sealed("Ibuprofen", id, "what")}
    given[field] = await quiet_clinic.db.fetchval(stolen[field])
    async with quiet_clinic.world.worker(app):
        await quiet_clinic.sign_up(id, plan_of(plan, given["what"]), ZONE, phone=given["phone"])
        await quiet_clinic.world.is_in("dosage-reminders", id, "unusable")
        why = str((await quiet_clinic.world.client.status("dosage-reminders", id)).attention)
    assert f"the key 'first' does not open it for dosage-reminders/{id}" in why
    assert "\n" not in why
    assert not [word for word in (NUMBER, OTHER, "Aspirin", "Ibuprofen", "perdure-sealed") if word in why]
    assert quiet_clinic.telephony.accepted == []
