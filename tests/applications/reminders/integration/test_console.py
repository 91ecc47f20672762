"""A day of reminders in the console: what became of its doses, by hour and rule, for those who may see them."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime

import httpx
import pytest

from infra.needs import is_needed
from tests.applications.reminders.conftest import Clinic
from tests.integration.console.browsing import Site, open_console, readable
from tests.integration.console.chromium import PHONE, chromium, why_no_chromium, window
from workers.queries import queries
from workers.reminders.app import app
from workers.reminders.console import PAGES, day
from workers.reminders.console.day import quiet_parts
from workflows.reminders import dose

HOSTILE = "<img src=x onerror=alert(1)>"
QUIET = "all of its window lies in the quiet hours"
PATIENTS = """
    alter table reminders.patient disable trigger user;
    insert into reminders.patient (id, plan, zone, phone, quiet_hours, state) values
        ('p', '{}', 'Europe/Paris', '+33', '{"start": "22:00", "end": "07:00"}', 'active'),
        ('q', '{}', 'Europe/Paris', '+33', null, 'paused'),
        ('r', '{}', 'Europe/Paris', '+33', '{"start": "1"}', 'ended')
"""
DOSES = """
    insert into perdure.finished (lifecycle, id, generation, state, why, created_at)
    select 'dose', id, generation, state, why, now() from (values
        ('p/a/2027-03-14T08:00', 0, 'sent', null), ('p/b/2027-03-14T08:30', 0, 'sent', null),
        ('q/x/a/2027-03-14T08:00', 0, 'expired', 'was late'), ('q/x/a/2027-03-14T08:00', 1, 'sent', null),
        ('p/a/2027-03-14T23:30', 0, 'expired', 'all of its window lies in the quiet hours'),
        ('p/a/2027-03-14T10:00', 0, 'expired', 'it was of no use any more, and in doubt'),
        ('q/a/2027-03-14T10:59', 0, 'refused', 'sms: landline'), ('q/b/2027-03-14T11:00', 0, 'error', 'resolved'),
        ('q/b/2027-03-14T12:00', 0, 'refused', 'it is open again'), ('r/a/2027-03-14T00:00', 0, 'withdrawn', null),
        ('p/a/2027-03-13T23:59', 0, 'sent', null), ('p/a/2027-03-15T00:00', 0, 'sent', null)
    ) x (id, generation, state, why);
    insert into perdure.ident (lifecycle, id, final) select distinct lifecycle, id, 'x' from perdure.finished;
    insert into perdure.entity (lifecycle, id, generation, state) values
        ('dose', 'q/b/2027-03-14T12:00', 1, 'sending'), ('dose', 'p/b/2027-03-14T22:30', 0, 'due'),
        ('dose', 'p/b/2027-03-14T12:30', 0, 'starting'), ('dose', 'p/b/2027-03-15T12:30', 0, 'due');
    insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at,
        deadline)
        values ('k', 'dose', 'p/a/2027-03-14T10:00', 0, 'send-sms', 't', 'in_doubt', 'd', now(), now(), now());
    insert into reminders.not_started (patient, rule, due, state, why) values
        ('p', 'c', '2027-03-14T02:30', 'expired', 'a clock that was put past it'),
        ('p', 'a', '2027-03-14T08:00', 'withdrawn', 'it was started after all'),
        ('p', $$<img src=x onerror=alert(1)>$$, '2027-03-14T03:00', 'withdrawn', $$<b>a pause$$)
"""
COUNTS = {
    "sent": 3,
    "sending": 1,
    "due": 2,
    "in doubt": 1,
    "quiet hours": 1,
    "expired": 1,
    "refused": 2,
    "withdrawn": 2,
}


@pytest.fixture
async def desk(quiet_clinic: Clinic) -> AsyncIterator[Site]:
    """The console of a clinic with a day on record; its database role has what `perdure grant --as reader` gives."""
    for each in (*PATIENTS.split(";"), *DOSES.split(";")):
        await quiet_clinic.db.execute(each)
    async with open_console(quiet_clinic.world, app=app, granted="reader") as site:
        yield site


async def test_a_day_shows_what_became_of_each_dose_that_was_due_once(
    quiet_clinic: Clinic, desk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day, "ROWS", 1)
    ann = desk.browser("ann", "look:dose")
    page = await ann.get("/reminders?day=2027-03-14")
    text = readable(page)
    assert "Reminders of Sunday, 14 March 2027" in text
    for kind, count in COUNTS.items():
        assert f"{count} {kind}" in text.partition("A dose appears")[0], kind
    assert "08:00 3 3" in text
    assert " a 6 2 1 1 1 1 b 5 1 1 2 1 " in text, "by rule, the one with the most doses first"
    found = Counter(await _seen(desk, "/reminders/doses?day=2027-03-14"))
    rows = await quiet_clinic.db.fetch(
        "select patient || '/' || rule || '/' || to_char(due, 'YYYY-MM-DD\"T\"HH24:MI') as id from reminders.dose "
        "where due >= '2027-03-14' and due < '2027-03-15'"
    )
    assert found == dict.fromkeys({row["id"] for row in rows}, 1), "each once, and those that the view has"
    assert await _seen(desk, "/reminders/doses?day=2027-03-14&kind=in+doubt") == ["p/a/2027-03-14T10:00"]
    assert await _seen(desk, "/reminders/doses?day=2027-03-14&hour=10&rule=a&kind=refused") == ["q/a/2027-03-14T10:59"]
    doses = await ann.get("/reminders/doses?day=2027-03-14&kind=expired")
    assert "not started c expired a clock that was put past it" in readable(doses)
    assert "/entity/dose" not in doses, "it has no page"
    only = readable(await ann.get("/reminders?day=2027-03-14&rule=b"))
    assert "2 refused" not in only
    assert "1 refused" in only
    assert "No dose has been due" in readable(await ann.get("/reminders?day=2027-03-12"))
    for path in ("?day=x", "?day=9999-12-31", "/doses?kind=x", "/doses?hour=24", "/doses?hour=x"):
        await ann.get(f"/reminders{path}", 400)
    for each in PAGES:
        await desk.browser("eve", "look:order,look@acme").get(each.path, 403)
        await desk.browser(None).get(each.path, 401)


async def _seen(desk: Site, path: str) -> list[str]:
    """The ids of doses on all pages."""
    browser, found = desk.browser("bob"), list[str]()
    while path:
        page = await browser.get(path)
        found += re.findall(r"(?:dose/)?(\S+?/(?:<.*?>|\w)/2027-\S+)", readable(page).partition("Why")[2])
        after = re.search(r'href="([^"]*after=[^"]+)">Next', page)
        path = after[1].replace("&amp;", "&") if after else ""
    return found


async def test_the_doses_of_a_day_are_found_by_an_index(quiet_clinic: Clinic) -> None:
    query = queries("workers.reminders.console")
    await quiet_clinic.db.execute("set enable_seqscan = off")
    within = datetime(2027, 3, 14), datetime(2027, 3, 15)
    for name, arguments in (("hours", (*within, None, 30)), ("doses", (*within, None, None, "", 51))):
        lines = [row[0] for row in await quiet_clinic.db.fetch(f"explain {query(name)}", *arguments)]
        assert any("Index Cond" in line and '"right"(id, 16)' in line for line in lines), "\n".join(lines)
        assert any("not_started_by_due" in line for line in lines)


def test_the_reason_of_a_window_in_the_quiet_hours_is_the_one_that_doses_give() -> None:
    assert f'"{QUIET}"' in inspect.getsource(dose)
    assert f"'{QUIET}'" in DOSES


def test_quiet_hours_are_a_part_of_all_patients_in_each_hour_that_they_touch() -> None:
    night, none = {"begins": "22:30", "ends": "07:00", "patients": 1}, {"begins": None, "ends": None, "patients": 2}
    noon = {"begins": "12:00", "ends": "13:00", "patients": 1}
    odd = {"begins": "24:61", "ends": "7", "patients": 0}
    found = quiet_parts([night, none, noon, odd])
    assert {hour for hour, part in enumerate(found) if part == 0.25} == {22, 23, *range(7), 12}
    assert sum(found) == 0.25 * 10
    assert quiet_parts([]) == [0.0] * 24


async def test_the_pages_are_accessible_and_fit_a_phone_with_hostile_data(desk: Site) -> None:
    if missing := why_no_chromium():
        pytest.fail(missing) if is_needed("chromium") else pytest.skip(missing)
    rule = str(httpx.QueryParams({"rule": HOSTILE}))
    paths = (
        *("/reminders?day=2027-03-14", f"/reminders?day=2027-03-14&{rule}", "/reminders?day=2027-03-12"),
        *("/reminders/doses?day=2027-03-14", f"/reminders/doses?day=2027-03-14&{rule}"),
    )
    async with chromium() as browser, window(browser, desk, "<b>ann", "look", viewport=PHONE) as phone:
        wrong = []
        for path in paths:
            wrong += await phone.problems(path)
            assert await phone.page.evaluate("document.querySelectorAll('main img, main script').length") == 0, path
        assert wrong == [], "\n".join(wrong)
