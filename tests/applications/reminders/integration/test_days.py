"""Unusual days on the time-skipping server: messages right before a dose, nights, a leap day."""

from __future__ import annotations

import json
from calendar import isleap
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.telephony.faults import Fault
from tests.applications.reminders.conftest import a_plan
from tests.applications.reminders.skipping import DAY, Skipping
from tests.deadline import DEADLINE

MINUTE = timedelta(minutes=1)
DAILY = "FREQ=DAILY"
WORDS: dict[str, dict[str, Any]] = {
    "phone": {"phone": "+12025550190"},
    "channel": {"channel": "call"},
    "plan": {"plan": json.dumps(a_plan({"id": "other", "rule": DAILY, "start": "2026-01-01T08:00"}))},
    "quiet": {"quiet_hours": '{"start": "07:30", "end": "08:15"}'},
    "pause": {"paused": True},
    "end": {"signed_off": True},
}


async def test_a_change_right_before_a_dose_applies_to_it(skipping: Skipping) -> None:
    due = await said_before_it_is_due(skipping)
    await skipping.to(due)
    for word in ("phone", "channel", "plan"):
        await skipping.over(word, 1)
    await skipping.begun("quiet", 1)
    await skipping.to(due + 15 * MINUTE)
    await skipping.over("quiet", 1)
    await skipping.clinic.world.until(lambda: skipping.clinic.doses("pause"), "what was due in the pause")

    assert {word: await doses(skipping, word) for word in WORDS} == {
        "phone": [("metformin", "sent", "08:00")],
        "channel": [("metformin", "sent", "08:00")],
        "plan": [("other", "sent", "08:00")],
        "quiet": [("metformin", "sent", "08:15")],
        "pause": [("metformin", "withdrawn", None)],
        "end": [],
    }
    told = {each.form["To"]: "call" if each.call else "sms" for each in skipping.clinic.telephony.accepted}
    by_word = {word: told.get(phone_of(word)) for word in WORDS}
    silent = dict.fromkeys(("phone", "pause", "end"))
    assert by_word == silent | {"channel": "call", "plan": "sms", "quiet": "sms"}
    assert told["+12025550190"] == "sms"
    assert [(await skipping.clinic.patient(word))[0] for word in ("pause", "end")] == ["paused", "ended"]


async def test_in_the_quiet_hours_across_midnight_nothing_is_sent(skipping: Skipping) -> None:
    noon = on(await skipping.now() + DAY, "12:00")
    rules = {"evening": on(noon, "21:30"), "night": on(noon, "23:00"), "morning": on(noon + DAY, "06:30")}
    plan = a_plan(*({"id": id, "rule": DAILY, "start": f"{at:%Y-%m-%dT%H:%M}"} for id, at in rules.items()))
    await skipping.to(noon)
    for patient in ("stays", "leaves"):
        await skipping.sign_up(patient, plan, quiet_hours='{"start": "22:00", "end": "07:00"}')
    for over, rule in enumerate(("evening", "night"), 1):
        await skipping.to(rules[rule])
        await skipping.over("stays", over)
        await skipping.over("leaves", over)
    await skipping.to(rules["morning"])
    for patient in ("stays", "leaves"):
        await skipping.begun(patient, 3)
    await skipping.clinic.change("leaves", signed_off=True)
    await skipping.over("leaves", 3)
    await skipping.to(on(noon + DAY, "07:00"))
    await skipping.over("stays", 3)

    night = [("evening", "sent", "21:30"), ("night", "expired", None)]
    assert await doses(skipping, "stays") == [*night, ("morning", "sent", "07:00")]
    assert await doses(skipping, "leaves") == [*night, ("morning", "withdrawn", None)]
    assert len(skipping.clinic.telephony.accepted) == 3
    assert (await skipping.clinic.doses("stays"))[1]["why"] == "all of its window lies in the quiet hours"


async def test_a_patient_who_signs_off_during_a_reminder_gets_no_other_one(skipping: Skipping) -> None:
    today, provider = await skipping.tomorrow(), skipping.clinic.telephony
    plan = a_plan({"rule": DAILY, "start": today}, {"id": "later", "rule": DAILY, "start": today[:-5] + "08:30"})
    provider.silence = DEADLINE
    provider.orders.order(Fault.DELAY_AFTER)
    await skipping.sign_up("jo", plan)
    await skipping.to(datetime.fromisoformat(today).replace(tzinfo=UTC))
    await skipping.clinic.world.until(lambda: provider.accepted, "a call under way")
    await skipping.clinic.change("jo", signed_off=True)
    assert await ended(skipping, "jo") == ("ended", "signed off")
    await skipping.acted("dose", f"jo/metformin/{today}")
    provider.answers.set()
    await skipping.over("jo", 1)
    await skipping.to(await skipping.now() + 2 * DAY)

    assert await doses(skipping, "jo") == [("metformin", "sent", "08:00")]
    assert len(provider.asked) == 1


async def test_while_the_provider_is_away_doses_expire_visibly_and_what_is_in_doubt_stays_so(
    skipping: Skipping,
) -> None:
    """Its lists do not show yet what it has accepted when it goes."""
    today, provider = await skipping.tomorrow(), skipping.clinic.telephony
    due, db = datetime.fromisoformat(today).replace(tzinfo=UTC), skipping.clinic.db
    provider.lag = 3600
    provider.orders.order(Fault.RESET_AFTER)
    few = {"rule": DAILY, "window": "PT4M"}
    later = today[:-5] + "10:00"
    await skipping.sign_up("jo", a_plan({"id": "a", "start": today, **few}, {"id": "b", "start": later, **few}))
    await skipping.to(due)
    doubts = "select count(*) from perdure.effect where status = 'in_doubt'"
    await skipping.clinic.world.until(lambda: db.fetchval(doubts), "a doubt")
    await provider.down()
    await skipping.to(due + 5 * MINUTE)
    await skipping.over("jo", 1)
    await skipping.to(due + 120 * MINUTE)
    await skipping.begun("jo", 2)
    attempts = "select count(*) = 2 from perdure.effect"
    await skipping.clinic.world.until(lambda: db.fetchval(attempts), "the next one is tried")
    await skipping.to(due + 125 * MINUTE)
    await skipping.over("jo", 2)
    await provider.up()
    await skipping.to(due + DAY)
    await skipping.over("jo", 3)

    assert await doses(skipping, "jo") == [("a", "expired", "08:00"), ("b", "expired", "10:00"), ("a", "sent", "08:00")]
    whys = [each["why"] for each in await skipping.clinic.doses("jo")]
    assert whys == ["it was of no use any more, and in doubt", "it was of no use any more", None]
    assert await db.fetchval(doubts) == 1
    assert await db.fetchval("select count(*) from perdure.entity where attention is not null") == 0
    assert len(provider.accepted) == 2, "the one that is in doubt, and the last one"


async def test_on_february_29(skipping: Skipping) -> None:
    year = next(year for year in range((await skipping.now()).year + 1, 2999) if isleap(year))
    await skipping.to(datetime(year, 2, 28, 12, tzinfo=UTC))
    leap_day = f"{year}-02-29T08:00"
    each_year = {"id": "year", "rule": "FREQ=YEARLY", "start": leap_day}
    each_month = {"id": "month", "rule": "FREQ=MONTHLY;BYMONTHDAY=29", "start": leap_day}
    await skipping.sign_up("jo", a_plan(each_year, each_month))
    await skipping.to(datetime(year, 2, 29, 8, tzinfo=UTC))
    await skipping.over("jo", 2)
    await skipping.to(datetime(year, 3, 29, 8, tzinfo=UTC))
    await skipping.over("jo", 3)
    assert [f"{at:%m-%d %H:%M}" for at in await skipping.sent("jo")] == ["02-29 08:00", "02-29 08:00", "03-29 08:00"]


async def said_before_it_is_due(skipping: Skipping) -> datetime:
    """Say each of `WORDS` to a patient of its own before its dose, by more than a test waits. Gives when it is due."""
    today = await skipping.tomorrow()
    due, plan = datetime.fromisoformat(today).replace(tzinfo=UTC), a_plan({"rule": DAILY, "start": today})
    for word in WORDS:
        await skipping.sign_up(word, plan, phone=phone_of(word))
    await skipping.to(due - 15 * MINUTE)
    for word, columns in WORDS.items():
        await skipping.clinic.change(word, **columns)
    await skipping.heard()
    return due


def phone_of(word: str) -> str:
    """Each patient has a number."""
    return f"+1202555020{list(WORDS).index(word)}"


def on(day: datetime, at: str) -> datetime:
    """That time of the same day."""
    return day.replace(hour=int(at[:2]), minute=int(at[3:]), second=0, microsecond=0)


async def doses(skipping: Skipping, patient: str) -> list[tuple[str, str, str | None]]:
    """Of each: its rule, what became of it, and when it was sent, or was to be."""
    rows = await skipping.clinic.db.fetch(
        "select d.rule, d.state, (select min(t.version) from perdure.transition t where t.lifecycle = 'dose' "
        "and t.id = d.patient || '/' || d.rule || '/' || to_char(d.due, 'YYYY-MM-DD\"T\"HH24:MI') "
        "and t.state = 'sending') as version from reminders.dose d where d.patient = $1 order by d.due, d.rule",
        patient,
    )
    return [
        (row["rule"], row["state"], row["version"] and f"{datetime.fromtimestamp(row['version'] / 1e6, UTC):%H:%M}")
        for row in rows
    ]


async def ended(skipping: Skipping, patient: str) -> tuple[str, str | None]:
    """Wait until a patient's reminders have ended: the state that its row shows, and why."""
    await skipping.clinic.world.ended("dosage-reminders", patient)
    return await skipping.clinic.patient(patient)
