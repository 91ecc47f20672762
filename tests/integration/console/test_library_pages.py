"""Findings, Rejected, Audit, Limits and tenants, and Workers: what each shows to whom, and what is done there."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from perdure._operations import audit as acts
from perdure.console.pages import audit, findings
from tests.apps.limited import app as limited
from tests.apps.talking import app
from tests.deadline import until
from tests.integration.console.browsing import Site, open_console, readable
from tests.world import World

pytestmark = pytest.mark.world(app)

ENTITIES = """
    select perdure.start('ring', n::text, '{}', tenant => t)
    from unnest('{acme,evil,NULL}'::text[]) with ordinality x (t, n);
    select perdure.start('rest', 'r', '{}');
"""
REJECT = """
    with gone as (delete from perdure.outbox returning *)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id, priority)
    select seq, lifecycle, id, generation, kind, body, 'no worker has ' || lifecycle || ' <b>', message_id, priority
    from gone
"""
FINDINGS = """
    insert into perdure.finding (kind, lifecycle, id, about, what, advice, mended, run, first_seen)
    values ('behind', 'ring', '1', '', 'the row shows <i>sent', 'look at the row', false, 1, now() - interval '2 h'),
        ('behind', 'ring', '2', 'x', 'evil things', 'look', true, 2, now()),
        ('clock', '', '', '', 'the clock is off', 'set it', false, 2, now() - interval '1 h')
"""
LEFT = "select string_agg(lifecycle || '/' || id, ' ' order by lifecycle, id) from perdure.rejected"


async def test_what_was_rejected_is_delivered_again_or_dropped_by_those_who_may(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(REJECT)
    seqs = {row["id"]: row["seq"] for row in await world.db.fetch("select id, seq from perdure.rejected")}
    async with open_console(world, app=app) as site:
        eve, ann = site.browser("eve", "bulk:ring@evil"), site.browser("ann", "bulk")
        text = readable(await eve.get("/rejected"))
        assert "1 rejected" in text
        assert "ring/2" in text
        assert "ring/1" not in text
        await eve.get("/rejected/drop", 404, seq=str(seqs["1"]))
        await _refused_to_others(site, str(seqs["1"]))
        page = f"/rejected/retry?seq={seqs['2']}"
        done = await eve.send(page, "/rejected/retry", note="mended")
        assert "ring/2: start delivered again" in readable(done.text)
        late = await eve.http.get(page)
        assert late.status_code == 404
        assert "somebody or something was faster" in readable(late.text)
        preview = f"/rejected/drop?lifecycle=ring&reason={'no worker has ring <b>'.replace(' ', '+')}"
        assert "Drop 2 of 2 entities" in readable(await ann.get(preview))
        form = await ann.form(preview, "/rejected/drop")
        lacking = await ann.http.post("/rejected/drop", data=form)
        assert lacking.status_code == 400
        await world.db.execute("select perdure.start('ring', 'late', '{}')")
        await world.db.execute(REJECT)
        again = await ann.form(preview, "/rejected/drop")
        job = (await ann.http.post("/rejected/drop", data={**again, "as_of": form["as_of"], "note": "a test"})).headers[
            "location"
        ]

        async def ended() -> str:
            page = readable(await ann.get(job))
            return page if "Ended" in page else ""

        assert "2 dropped , 0 refused, of 2" in await until(ended, "it is done")
        assert await world.db.fetchval(LEFT) == "rest/r ring/2 ring/late"
        for path in ("/rejected/burn?seq=1", "/rejected/drop", "/rejected?after=x", "/rejected/drop?seq=%D9%A1"):
            await ann.get(path, 400)
    done_by = await world.db.fetch("select made_by, why from perdure.transition where made_by is not null order by seq")
    assert {row["made_by"] for row in done_by} == {"eve", "ann"}
    assert "mended" in done_by[0]["why"]


async def test_a_start_is_dropped_with_its_message_and_that_is_no_refusal(world: World) -> None:
    await world.db.execute("select perdure.start('ring', 'a', '{}'), perdure.signal('ring', 'a', 'answer')")
    await world.db.execute(REJECT)
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "bulk")
        form = await ann.form("/rejected/drop?lifecycle=ring", "/rejected/drop")
        job = (await ann.http.post("/rejected/drop", data={**form, "note": "a test"})).headers["location"]

        async def ended() -> str:
            page = readable(await ann.get(job))
            return page if "Ended" in page else ""

        assert "1 dropped , 0 refused, of 1" in await until(ended, "it is done")
    assert await world.db.fetchval(LEFT) is None


async def _refused_to_others(site: Site, seq: str) -> None:
    for roles, status in (("look", 403), ("settle:rest", 404), ("settle@evil", 404), ("payloads", 403)):
        browser = site.browser("x", roles)
        await browser.get("/")
        data = {"form_token": site.token(browser), "seq": seq, "note": "n"}
        answer = await browser.http.post("/rejected/drop", data=data)
        assert answer.status_code == status, (roles, readable(answer.text))
    browser = site.browser("x", "settle")
    await browser.get("/")
    many = {"form_token": site.token(browser), "lifecycle": "ring", "note": "n", "as_of": "2030-01-01T00:00:00+00:00"}
    assert (await browser.http.post("/rejected/drop", data=many)).status_code == 403
    assert "you need the role bulk" in readable(await browser.get("/rejected/drop?lifecycle=ring"))


async def test_findings_say_what_to_do_and_come_page_by_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "ROWS", 1)
    await world.db.execute(ENTITIES)
    await world.db.execute(FINDINGS)
    async with open_console(world, app=app) as site:
        ann, path, seen = site.browser(), "/findings", []
        while path:
            page = await ann.get(path)
            seen.append(
                next(each for each in ("sent", "clock", "evil") if each in readable(page).partition("Last seen")[2])
            )
            after = re.search(r'href="([^"]*after=[^"]+)">Next', page)
            path = after[1].replace("&amp;", "&") if after else ""
        assert seen == ["sent", "clock", "evil"]
        assert "look at the row" in readable(await ann.get("/findings?which=left"))
        assert "evil" in readable(await ann.get("/findings?which=mended&kind=behind&lifecycle=ring"))
        acme = readable(await site.browser("bob", "look@acme").get("/findings"))
        assert "the row shows" in acme
        assert "clock" not in acme
        assert "evil" not in acme
        for path in ("/findings?which=x", "/findings?after=x"):
            await ann.get(path, 400)


async def test_the_audit_lists_who_did_what_and_is_a_file_without_formulae(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "ROWS", 2)
    monkeypatch.setattr(acts, "STRETCH", 5)
    await world.db.execute(ENTITIES)
    for number, by in enumerate(("ann", "=HYPERLINK(1)", "ann", "bob")):
        await world.db.execute(
            "select perdure.note('ring', $1, $2, $3)", str(number % 2 + 1), by, f"-looked {number} <b>"
        )
    async with open_console(world, app=app) as site:
        ann, path, seen = site.browser(), "/audit", list[str]()
        while path:
            page = await ann.get(path)
            seen += re.findall(r"looked (\d)", readable(page))
            found = re.search(r'href="([^"]*before=[^"]+)">Before', page)
            path = found[1].replace("&amp;", "&") if found else ""
        assert seen == ["3", "2", "1", "0"]
        assert re.findall(r"looked (\d)", readable(await ann.get("/audit?by=ann"))) == ["2", "0"]
        assert re.findall(r"looked (\d)", readable(await ann.get("/audit?lifecycle=ring&id=2"))) == ["3", "1"]
        assert re.findall(r"looked (\d)", readable(await ann.get("/audit?why=looked+2"))) == ["2"]
        eve = site.browser("eve", "look@evil")
        assert re.findall(r"looked (\d)", readable(await eve.get("/audit"))) == ["3", "1"]
        rows = list(csv.DictReader(io.StringIO((await eve.http.get("/audit/export")).text)))
        assert [(row["by"], row["why"]) for row in rows] == [
            ("bob", "'-looked 3 <b>"),
            ("'=HYPERLINK(1)", "'-looked 1 <b>"),
        ]
        lines = (await ann.http.get("/audit/export?format=json&since=2026-01-01")).text.splitlines()
        assert [json.loads(line)["id"] for line in lines] == ["2", "1", "2", "1"]
        for path in ("/audit?since=yore", "/audit?before=x", "/audit/export?format=x"):
            await ann.get(path, 400)


@pytest.mark.world(limited)
async def test_a_limit_is_changed_by_those_who_administer_everything(world: World) -> None:
    await world.db.execute("select perdure.start('limited', '1', '{}', tenant => 'acme')")
    await world.db.execute("delete from perdure.outbox")
    async with world.worker(limited), open_console(world, app=limited) as site:
        root = site.browser("root", "administer")
        text = readable(await root.get("/limits"))
        assert "acme" in text
        assert "the code" in text
        workers = readable(await root.get("/workers"))
        assert world.config.queue in workers
        assert "nothing goes on until a worker runs" not in workers
        name = next(iter(limited.limits))
        changed = await root.send(f"/limits/{name}", f"/limits/{name}", rate_of="number", per_second="2.5", note="slow")
        assert "2.5 a second, for all workers" in readable(changed.text)
        assert "Undo: as in the code, as it was" in readable(changed.text)

        async def in_force() -> bool:
            return "2.5" in readable(await root.get("/limits")) and "root ," in readable(await root.get("/limits"))

        await until(in_force, "the new limit is shown")
        await root.get("/limits")  # read just before the change, and kept for a second
        again = await root.send(f"/limits/{name}", f"/limits/{name}", rate_of="number", per_second="3", note="slow")
        assert f"{name} 3 " in readable(again.text)
        undo = re.search(r'href="([^"]*was=2.5)">Undo: 2.5 a second', again.text)
        assert undo is not None
        assert 'value="2.5"' in await root.get(undo[1])
        for fields in ({"per_second": "nan", "note": "n"}, {"per_second": "-1", "note": "n"}, {"per_second": "1"}):
            form = await root.form(f"/limits/{name}", f"/limits/{name}")
            assert (await root.http.post(f"/limits/{name}", data={**form, **fields})).status_code == 400, fields
        for roles, status in (("bulk", 403), ("administer:ring", 403), ("look", 403)):
            other = site.browser("x", roles)
            await other.get("/")
            data = {"form_token": site.token(other), "per_second": "1", "note": "n"}
            assert (await other.http.post(f"/limits/{name}", data=data)).status_code == status, roles
        await root.get("/limits/nil", 400)


async def test_pages_say_that_temporal_is_away_and_show_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    await world.db.execute(ENTITIES)
    await world.db.execute("select perdure.relay_seen('relay-7', '{ring}', '{}')")
    async with open_console(world, app=limited) as site:
        ann = site.browser("root", "administer")
        workers = readable(await ann.get("/workers"))
        assert "they are not known until it answers" in workers
        assert "relay-7" in workers
        limits = readable(await ann.get("/limits"))
        assert "what is in force is not known" in limits
        assert "evil" in limits
        name = next(iter(limited.limits))
        assert (await ann.send(f"/limits/{name}", f"/limits/{name}", per_second="1", note="n")).status_code == 503
