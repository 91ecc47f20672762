"""Families and job types in the console: what each role sees and does. Its database role has a console's rights."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from infra.needs import is_needed
from tests.applications.web_jobs.conftest import Jobs
from tests.deadline import until
from tests.integration.console.browsing import Browser, Site, open_console, readable
from tests.integration.console.chromium import PHONE, chromium, why_no_chromium, window
from tests.pages import answers
from workers.web_jobs.app import app
from workers.web_jobs.console import PAGES, families, job_types

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
async def desk(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """The console, whose database role has what `perdure grant --as console` gives."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", jobs.world.environment()["TEMPORAL_ADDRESS"])
    async with open_console(jobs.world, app=app, granted="console") as site:
        yield site


async def _ended(browser: Browser, answer: httpx.Response) -> str:
    async def over() -> str:
        page = readable(await browser.get(answer.url.path))
        return page if "Ended" in page else ""

    return str(await until(over, "the act on many is over"))


async def _family(jobs: Jobs) -> None:
    """A master that failed: one child done, two refused, one cancelled while its type held it."""
    await jobs.type("master", children=["page", "slow"])
    await jobs.type("page")
    await jobs.type("slow", disabled="not yet")
    ids = [("a", "page"), (HOSTILE[:-1], "page"), ("c", "page"), ("d", "slow")]
    children = [{"id": id.replace("/", ""), "type": type} for id, type in ids]
    jobs.pages.replies["/master"] = [answers({"children": children, "window": 1, "tolerates": None})]
    jobs.pages.replies["/page"] = [answers(), answers({}, 422), answers({}, 422), answers()]
    await jobs.insert("m", "master")
    await jobs.shows("m/d", "held")
    await jobs.db.execute("select perdure.cancel('web-job', 'm/d', 'ann', 'too slow')")
    assert await jobs.ended("m") == "complete"
    await jobs.shows("m", "complete")


async def test_the_failed_of_a_family_are_seen_with_their_reasons_and_run_again_as_the_preview_said(
    jobs: Jobs, desk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "ROWS", 1)
    async with jobs.world.worker(app):
        await _family(jobs)
        ann, eve = desk.browser("ann", "bulk"), desk.browser("eve", "settle,bulk:ring")
        text = readable(await ann.get("/families?which=failures"))
        assert "m master complete 4 1 0 0 2 1 0" in text
        assert "There is no family that matches" in readable(await ann.get("/families?which=running"))
        page, path, seen = "", "/families/one?id=m", list[str]()
        while path:
            page = await ann.get(path)
            seen += re.findall(r"web-job/m/(\S+)", readable(page).partition("Why")[2])
            after = re.search(r'href="([^"]*after=[^"]+)">Next', page)
            path = after[1].replace("&amp;", "&") if after else ""
        assert "answered 422" in readable(page)
        assert "<img" not in page.partition("<main")[2]
        assert seen == ["<img", "c"]
        await _refused_to_others(desk, eve)
        preview = readable(await ann.get("/families/again?id=m"))
        assert "runs the 2 failed and the 1 cancelled children again" in preview
        assert "only the 2 failed children are restarted" in preview
        form = await ann.form("/families/again?id=m", "/families/again")
        early = {**form, "way": "each", "note": "n", "as_of": "2020-01-01T00:00:00+00:00"}
        job = await ann.http.post("/families/again", data=early, follow_redirects=True)
        assert "0 restarted , 0 refused, of 2" in await _ended(ann, job), "what failed after the preview is left alone"
        job = await ann.send("/families/again?id=m", "/families/again", way="each", note="their page is mended")
        assert "2 restarted , 0 refused, of 2" in await _ended(ann, job)
        for child in (HOSTILE[:-1], "c"):
            assert await jobs.ended(f"m/{child}") == "complete"
        await jobs.shows("m/c", "complete")
        assert await jobs.state("m/d") == "cancelled"
        assert "No child of it has failed" in readable(await ann.get("/families/again?id=m"))

        jobs.pages.replies["/page"] = [answers({}, 422), answers()]
        await jobs.db.execute("select perdure.restart('web-job', 'm/a', 'ann', 'once more')")
        await jobs.shows("m/a", "failed")
        await jobs.db.execute("update web_job.type set disabled = null where name = 'slow'")
        form = await ann.form("/families/again?id=m", "/families/again")
        late = await ann.http.post(
            "/families/again", data={**form, "cancelled": "0", "way": "family", "note": "what moved since"}
        )
        assert late.status_code == 409
        done = await ann.send("/families/again?id=m", "/families/again", way="family", note="all of it")
        assert "web-job/m: runs again, as generation 1" in readable(done.text)
        assert await jobs.ended("m") == "complete"
        assert await jobs.why("m") == "children: 4 done, 0 failed, 0 left of 4"
        assert sum(each.path == "/master" for each in jobs.pages.asked) == 1
        audit = readable(await ann.get("/audit?by=ann&why=their+page"))
        assert audit.count("web-job/m/") == 2


async def _refused_to_others(desk: Site, eve: Browser) -> None:
    stranger = desk.browser(None)
    for page in PAGES:
        assert (await stranger.http.request(page.method, page.path)).status_code == 401, page.name
    for path in ("/families/one?id=nobody", "/families/again?id=m/a"):
        await eve.get(path, 404)
    for path in ("/families?which=some", "/families/one?id=m&state=odd"):
        await eve.get(path, 400)
    assert "you need the role bulk" in readable(await eve.get("/families/again?id=m"))
    assert "Run the failed again" not in readable(await eve.get("/families/one?id=m"))
    fields = {"id": "m", "way": "each", "note": "n", "failed": "2", "cancelled": "1", "as_of": "2030-01-01T00:00:00Z"}
    for roles in ("settle,bulk:ring", "look", "bulk@acme"):
        other = desk.browser("eve", roles)
        await other.get("/")
        sent = {"form_token": desk.token(other), **fields}
        assert (await other.http.post("/families/again", data=sent)).status_code == 403, roles
    for path in ("/families", "/families/one?id=m", "/families/again?id=m", "/job-types", "/job-types/one?name=page"):
        await desk.browser("zoe", "look:ring,look@acme").get(path, 403)
    assert "Families Job types" in readable(await eve.get("/"))
    assert "Families" not in await desk.browser("zoe", "look:ring,look@acme").get("/"), "the menu leads to no refusal"


async def test_a_job_type_is_shown_without_its_secrets_tested_disabled_and_enabled_with_who_did_so_on_record(
    jobs: Jobs, desk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_types, "ROWS", 2)
    await jobs.db.execute("alter table web_job.type drop constraint dedupe_has_remembers")
    await jobs.type("odd", doubt="dedupe")
    await jobs.type("long", timeout=timedelta(minutes=20))
    headers = {"X-Access-Token": "hush", "Accept-Language": "en"}
    await jobs.type(path="/page{?row}", headers=json.dumps(headers))
    one, child = "/job-types/one?name=page", {"children": [{"id": "1", "type": "page"}]}
    jobs.pages.replies["/page"] = [answers({"name": "zebra"}), answers({}, 422), answers(child)]
    ann, bob = desk.browser("ann", "administer:web-job"), desk.browser("bob", "administer,payloads")
    text = readable(await ann.get("/job-types"))
    assert "can't be used : the job type odd can't be used: doubt: say for how long" in text
    page = await ann.get(one)
    assert "X-Access-Token: ***; Accept-Language: en" in readable(page)
    assert "hush" not in page
    await _may_not_change(jobs, desk)

    tested = readable((await ann.send(one, "/job-types/test", params='{"row": 7}')).text)
    assert "answered 200 Its answer to see it you need the role payloads So the job would be complete" in tested
    assert jobs.pages.asked[0].query == {"row": "7"}
    assert "the job would fail" in readable((await bob.send(one, "/job-types/test")).text)
    assert "the job would lead 1 children" in readable((await bob.send(one, "/job-types/test", payload="[1]")).text)
    assert await jobs.db.fetchval("select count(*) from web_job.job") == 0
    for fields in ({"params": "[1]"}, {"payload": "{"}, {"params": '{"row": {}}'}):
        sent = {"form_token": desk.token(ann), "name": "page", **fields}
        assert (await ann.http.post("/job-types/test", data=sent)).status_code == 400, fields
    for name, status in (("long", 409), ("odd", 409), ("nobody", 404)):
        data = {"form_token": desk.token(ann), "name": name}
        assert (await ann.http.post("/job-types/test", data=data)).status_code == status, name

    async with jobs.world.worker(app):
        refused = await ann.send(one, "/job-types/act", note=" ")
        assert refused.status_code == 400
        assert "page is disabled" in readable((await ann.send(one, "/job-types/act", note="they move\nit")).text)
        await jobs.insert()
        await jobs.shows("1", "held")
        assert "Held web-job/1" in readable(await bob.get(one))
        assert "page is enabled; 1 held jobs go on" in readable(
            (await bob.send(one, "/job-types/act", note="moved")).text
        )
        assert await jobs.ended() == "failed"
    path, changes = one, list[tuple[str, str]]()
    while path:
        page = await ann.get(path)
        changes += re.findall(r"UTC (ann|bob)? ?role desk\S* (\w+)", readable(page).partition("Who changed it")[2])
        before = re.search(r'href="([^"]*before=[^"]+)">Before', page)
        path = before[1].replace("&amp;", "&") if before else ""
    assert changes == [
        *(("bob", "enabled"), ("ann", "disabled"), ("bob", "tested"), ("bob", "tested"), ("ann", "tested"))
    ]
    assert "Who changed a job type stands on the page Job types" in readable(await ann.get("/audit"))


async def _may_not_change(jobs: Jobs, desk: Site) -> None:
    """Neither who lacks the role, nor by the database role of the console itself."""
    for roles in ("look", "bulk", "administer:ring", "administer@acme"):
        other = desk.browser("eve", roles)
        await other.get("/")
        for path, fields in (("act", {"act": "disable", "note": "n"}), ("test", {})):
            sent = {"form_token": desk.token(other), "name": "page", **fields}
            assert (await other.http.post(f"/job-types/{path}", data=sent)).status_code == 403, (roles, path)
    ann = desk.browser("ann", "administer")
    await ann.get("/")
    for act in ("", "test", "drop"):
        sent = {"form_token": desk.token(ann), "name": "page", "act": act, "note": "n"}
        assert (await ann.http.post("/job-types/act", data=sent)).status_code == 400, act
    assert await jobs.db.fetchval("select disabled from web_job.type where name = 'page'") is None
    assert jobs.pages.asked == []


async def test_the_pages_are_accessible_and_fit_a_phone_with_hostile_data(jobs: Jobs, desk: Site) -> None:
    if missing := why_no_chromium():
        pytest.fail(missing) if is_needed("chromium") else pytest.skip(missing)
    await jobs.type("master", disabled=HOSTILE, headers=json.dumps({"X-Name": "<b>&"}))
    await jobs.db.execute("insert into web_job.job (id, type, state) values ($1, 'master', 'processing')", HOSTILE)
    await jobs.db.execute("insert into web_job.family (master, window_size) values ($1, 5)", HOSTILE)
    await jobs.db.execute(
        "insert into web_job.job (id, type, state, parent) select $1 || '/' || $1 || n, 'master', s, $1 from "
        "unnest('{failed,failed,cancelled,complete,processing,held,listed}'::text[]) with ordinality x (s, n)",
        HOSTILE,
    )
    await jobs.db.execute(
        "insert into web_job.refused_child (master, id, page, child, why) values ($1, $1, 1, '{}', $1)", HOSTILE
    )
    await jobs.db.execute("update web_job.family set refused = 1, listed = listed + 1")
    await jobs.db.execute(
        "with doubtful as (select id, state from web_job.job where parent = $1 and state in ('processing', 'failed')), "
        "opened as (insert into perdure.entity (lifecycle, id, generation, state) select 'web-job', id, 0, state "
        "from doubtful where state = 'processing') insert into perdure.effect (key, lifecycle, id, generation, effect, "
        "token, status, digest, first_at, attempt_at, deadline) select id, 'web-job', id, 0, 'call-page', 't', "
        "'in_doubt', 'd', now(), now(), now() from doubtful",
        HOSTILE,
    )
    quoted = str(httpx.QueryParams({"id": HOSTILE}))
    paths = (
        *("/families", f"/families/one?{quoted}", f"/families/one?{quoted}&state=held", f"/families/again?{quoted}"),
        *("/job-types", "/job-types/one?name=master", "/audit"),
    )
    async with (
        chromium() as browser,
        window(browser, desk, "<b>ann", "administer,payloads", viewport=PHONE) as phone,
    ):
        wrong, text = [], ""
        for path in paths:
            wrong += await phone.problems(path)
            text += await phone.text()
            assert await phone.page.evaluate("document.querySelectorAll('main img, main script').length") == 0, path
            assert "\u202e" not in await phone.text(), path
        assert wrong == [], "\n".join(wrong)
        for words in ("In doubt 1", "2 of 3: not run again before somebody has settled the doubt"):
            assert words in text
