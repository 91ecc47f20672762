"""A doubt is settled by a person who reads the page alone: one, or many with a preview, a count, a stop and a record of
who did it. Of two people who settle the same one, one is told that the other was faster."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest

from perdure.console import Host, console
from tests.apps.contracts import Booking
from tests.apps.talking import Ring, app
from tests.deadline import until
from tests.integration.console.browsing import Form, open_console, readable, serving, told
from tests.integration.operations.acts import LOST, parked, record
from tests.world import World

pytestmark = pytest.mark.world(app)

MANY = 12
NOTE = "their log has it"


async def test_a_doubt_is_settled_by_one_of_two_people_who_read_the_page(world: World) -> None:
    world.counterparty.replies_to = {"a": [LOST], "b": [LOST]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Ring, "a", Booking())
        await world.client.start(Ring, "b", Booking())
        await parked(world, 2)
        ann, bob = site.browser("ann", "settle"), site.browser("bob", "settle")
        inbox = await ann.get("/inbox")
        assert "2 in doubt: do-ring of ring" in readable(inbox)
        assert "not done : the call is made again, with the same key" in readable(inbox)
        group = next(each for each in links(inbox) if each.startswith("/inbox/doubts"))
        page = await ann.get(group)
        text = readable(page)
        assert "Attempted do-ring , 1 time, last at" in text
        assert "ring/a/do-ring" in text, "the key that the other side knows"
        act = next(each for each in links(page) if "/act/resolve" in each and "id=a" in each)
        assert "Settle all" not in text, "nobody who may not act on many is offered it"

        theirs = await bob.form(act, "/act/resolve")  # opened before ann has settled it
        answer = await ann.send(act, "/act/resolve", outcome="done", receipt='{"number": 7}', note=NOTE)
        assert answer.status_code == 200, readable(answer.text)
        assert "1 in doubt: do-ring of ring" in readable(await ann.get("/inbox")), "who has settled one sees one less"
        assert "resolved as done" in readable(answer.text)
        late = await bob.http.post("/act/resolve", data={**theirs, "outcome": "not_done", "note": NOTE})
        assert late.status_code == 409, readable(late.text)
        assert await world.ended("ring", "a") == "done"
        assert await record(world, "ring", "a") == [("doing", "ann", "do-ring resolved as done: their log has it")]
        assert world.counterparty.seen("do", "ring/a/") == 1, "nothing was called again"

        other = act.replace("id=a", "id=b").replace("%2Fa%2F", "%2Fb%2F")
        for lacking in (
            {"outcome": "done"},
            {"note": NOTE},
            {"outcome": "done", "receipt": "{", "note": NOTE},
            {"outcome": "not_done", "receipt": '{"number": 7}', "note": NOTE},
        ):
            wrong = await bob.http.post("/act/resolve", data={**await bob.form(other, "/act/resolve"), **lacking})
            assert wrong.status_code == 400, lacking
            assert "shows the form as you filled it in" in readable(wrong.text)
        assert await record(world, "ring", "b") == []


async def test_an_answer_about_one_attempt_settles_no_later_attempt(world: World) -> None:
    world.counterparty.replies_to = {"a": [LOST, LOST]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Ring, "a", Booking())
        await parked(world, 1)
        ann, bob = site.browser("ann", "settle"), site.browser("bob", "settle")
        act = "/act/resolve?lifecycle=ring&id=a&key=ring%2Fa%2Fdo-ring"
        about_the_first = await bob.form(act, "/act/resolve")
        await ann.send(act, "/act/resolve", outcome="not_done", note=NOTE)

        async def attempted_again() -> bool:
            return bool(await world.db.fetchval("select status = 'in_doubt' and attempts = 2 from perdure.effect"))

        await until(attempted_again, "the second attempt is in doubt")
        await parked(world, 1)
        late = await bob.http.post("/act/resolve", data={**about_the_first, "outcome": "not_done", "note": NOTE})
        assert late.status_code == 409, readable(late.text)
        assert "attempted again since the form was loaded" in readable(late.text)
        sent = await bob.send(act, "/act/resolve", outcome="done", receipt='{"number": 7}', note=NOTE)
        assert sent.status_code == 200, readable(sent.text)
        assert await world.ended("ring", "a") == "done"
        assert world.counterparty.seen("do", "ring/a/") == 2


async def test_a_form_about_one_generation_restarts_no_later_generation(world: World) -> None:
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Ring, "a", Booking())
        await world.ended("ring", "a")
        ann, bob = site.browser("ann", "settle"), site.browser("bob", "settle")
        act = "/act/restart?lifecycle=ring&id=a"
        about_the_first = await bob.form(act, "/act/restart")
        assert (await ann.send(act, "/act/restart", note="as agreed")).status_code == 200

        async def ended_again() -> bool:
            row = await world.db.fetchrow("select generation, final from perdure.ident")
            return row is not None and tuple(row) == (1, "done")

        await until(ended_again, "the second generation ends")
        late = await bob.http.post("/act/restart", data={**about_the_first, "note": "as agreed"})
        assert late.status_code == 409, readable(late.text)
        assert await world.db.fetchval("select generation from perdure.ident") == 1


async def test_many_are_settled_after_a_preview_and_those_that_join_later_are_left_alone(world: World) -> None:
    world.counterparty.replies = [dict(LOST) for _ in range(MANY + 1)]
    async with world.worker(app), open_console(world, app=app) as site:
        await world.db.execute(f"select perdure.start('ring', n::text, '{{}}') from generate_series(1, {MANY}) n")
        await parked(world, MANY)
        ann = site.browser("ann", "bulk")
        group = next(each for each in links(await ann.get("/inbox")) if each.startswith("/inbox/doubts"))
        act = next(
            each for each in links(await ann.get(group)) if each.startswith("/act/resolve") and "id=" not in each
        )
        assert f"Settle {MANY}" in readable(await ann.get(act))
        one_for_all = {"outcome": "done", "receipt": '{"number": 7}', "note": NOTE}
        shared = await ann.http.post("/act/resolve", data={**await ann.form(act, "/act/resolve"), **one_for_all})
        assert (shared.status_code, "one receipt for many" in readable(shared.text)) == (400, True)
        form = await ann.form(act, "/act/resolve")
        await world.client.start(Ring, "late", Booking())
        await parked(world, MANY + 1)
        sent = await ann.http.post("/act/resolve", data={**form, "outcome": "abandoned", "note": "too old"})
        job = sent.headers["location"]

        async def ended() -> str:
            text = readable(await ann.get(job))
            return text if "Ended" in text else ""

        assert f"{MANY} settled , 0 refused, of {MANY}" in await until(ended, "the job ends")
        rows = await world.db.fetch("select id, settled_by, status from perdure.effect order by id")
        left = [row["id"] for row in rows if row["status"] == "in_doubt"]
        assert left == ["late"]
        assert {row["settled_by"] for row in rows} == {"ann", None}
        missing = readable(await site.browser("bob", "bulk").get(job, status=404))
        assert "Overview Inbox List" in missing, "the menu stays on a page that says what is wrong"
        again = await ann.http.post("/act/resolve", data={**form, "outcome": "done", "note": "twice"})
        assert again.status_code == 403, "a form counts once"
        assert "it was sent before" in readable(again.text)


async def test_some_of_a_group_are_settled_by_ticks_and_by_a_list_and_the_others_stay(world: World) -> None:
    world.counterparty.replies = [dict(LOST) for _ in range(8)]
    async with world.worker(app), open_console(world, app=app) as site:
        await world.db.execute("select perdure.start('ring', n::text, '{}') from generate_series(1, 8) n")
        await parked(world, 8)
        ann = site.browser("ann", "bulk")
        group = next(each for each in links(await ann.get("/inbox")) if each.startswith("/inbox/doubts"))
        page = await ann.get(group)
        export = next(each for each in links(page) if "/export" in each and "format=csv" in each)
        rows = {row["id"]: row for row in csv.DictReader(io.StringIO(await ann.get(export)))}
        assert len(rows) == 8
        pasted = [
            f'{rows["2"]["token"]}\t{{"number": 22}}',
            f'"{rows["3"]["key"]}","{{""number"": 33}}"',
            *("ring/4", "5", "5", 'ring/6 {"numbers": 1}', "ring/7 {", f'{rows["2"]["key"]} {{"number": 23}}'),
            *("ch_none", "<b>a line"),
        ]
        ticked: dict[str, Any] = {"item-1": rows["1"]["key"]}
        some = "/inbox/doubts/some"
        preview = await ann.send(group, some, **ticked, list="\r\n".join(pasted))
        text = readable(preview.text)
        assert "Settle 5" in text
        assert "2 lines left out: not in this group, or no longer in doubt" in text
        assert "3 lines left out: the receipt can't be used" in text
        assert "<b>a line" in text
        assert "2 lines have a receipt" in text
        form = Form()
        form.feed(preview.text)
        fields = {**form.forms["/act/resolve"][0], "note": NOTE}
        denied = await ann.http.post("/act/resolve", data={**fields, "outcome": "not_done"})
        assert (denied.status_code, "the list gives receipts" in readable(denied.text)) == (400, True)
        assert (await site.browser("bob", "settle").http.post(some, data={})).status_code == 403

        preview = await ann.send(group, some, **ticked, list="\n".join(pasted))
        form = Form()
        form.feed(preview.text)
        shared = {"outcome": "done", "receipt": '{"number": 9}', "same": "on", "note": NOTE}
        sent = await ann.http.post("/act/resolve", data={**form.forms["/act/resolve"][0], **shared})
        job = sent.headers["location"]

        async def ended() -> str:
            text = await ann.get(job)
            return text if "Ended" in readable(text) else ""

        done = await until(ended, "the job ends")
        assert "5 settled , 0 refused, of 5" in readable(done)
        left = await world.db.fetch("select id, status, receipt->>'number' as number from perdure.effect order by id")
        settled = {row["id"]: row["number"] for row in left if row["status"] == "done"}
        assert settled == {"1": "9", "2": "22", "3": "33", "4": "9", "5": "9"}
        rest = await ann.get(next(each for each in links(done) if each.startswith("/inbox/doubts")))
        assert "3 in doubt" in readable(rest)

        following = next(each for each in links(rest) if each.startswith("/act/resolve?") and "id=" in each)
        for where in ("/act/resolve", "/act/resolve", "/inbox/doubts"):
            answer = await ann.send(following, "/act/resolve", outcome="abandoned", note=NOTE)
            onward = next(each for each in links(answer.text) if each.startswith("/inbox/next"))
            reached = await ann.http.get(onward, follow_redirects=True)
            following = reached.url.raw_path.decode()
            assert reached.url.path == where
        assert "Nothing of this is in doubt any more" in readable(await ann.get(following))


async def test_what_somebody_else_has_requested_is_not_counted_as_hers(world: World) -> None:
    await world.db.execute("select perdure.start('ring', n::text, '{}') from generate_series(1, 3) n")
    async with open_console(world, app=app) as site:
        ann, bob = site.browser("ann", "bulk"), site.browser("bob", "settle")
        form = await ann.form("/act/cancel?lifecycle=ring", "/act/cancel")
        await bob.send("/act/cancel?lifecycle=ring&id=2", "/act/cancel", note="a mistake")
        await ann.send("/act/cancel?lifecycle=ring&id=3", "/act/cancel", note="too late")
        sent = await ann.http.post("/act/cancel", data={**form, "note": "season is over"})
        job = sent.headers["location"]

        async def ended() -> str:
            text = readable(await ann.get(job))
            return text if "Ended" in text else ""

        text = await until(ended, "the job ends")
        assert "2 requested to end , 1 refused, of 3" in text
        assert "ring/2: bob has already requested its end" in text
        assert "each entity that was not refused has it on record" in text
    requests = "select id, made_by from perdure.transition where why like 'cancel requested%' order by id"
    noted = await world.db.fetch(requests)
    assert [tuple(row) for row in noted] == [("1", "ann"), ("2", "bob"), ("3", "ann")]


async def test_another_process_says_where_an_act_on_many_is(world: World) -> None:
    await world.db.execute("select perdure.start('ring', n::text, '{}') from generate_series(1, 5) n")
    folder = world.folder / "console"
    one, other = (console(Host(told), app=app, config=world.config, folder=folder) for _ in range(2))
    async with serving(one) as here, serving(other) as there:
        ann, same = here.browser("ann", "bulk"), there.browser("ann", "bulk")
        begun = await ann.send("/act/cancel?lifecycle=ring", "/act/cancel")
        missing = readable(await same.get(str(begun.url.path), status=404))
        assert "another process that shares the folder has begun it" in missing
        assert "No act on many that you may see was begun by this process" in readable(await same.get("/jobs"))
        assert "Cancel" in readable(await ann.get("/jobs"))


async def test_an_act_on_many_is_stopped(world: World) -> None:
    await world.db.execute("select perdure.start('ring', n::text, '{}') from generate_series(1, 50) n")
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "bulk")
        sent = await ann.send("/act/cancel?lifecycle=ring&state=starting", "/act/cancel", rate="1")
        job = str(sent.url.path)
        assert "1 act on many under way" in readable(await ann.get("/inbox")), "the way back to it"
        stopped = await ann.send(job, f"{job}/stop")
        assert "It stops" in readable(stopped.text) or "It was stopped" in readable(stopped.text)

        async def ended() -> str:
            text = readable(await ann.get(job))
            return text if "It was stopped" in text else ""

        done = re.search(r"(\d+) requested to end , 0 refused, of 50", await until(ended, "it stops"))
        assert done is not None
        asked = await world.db.fetchval("select count(*) from perdure.message where kind = 'cancel'")
        assert asked == int(done[1]) < 50


def links(page: str) -> list[str]:
    """Where the links of a page lead."""
    return [each.replace("&amp;", "&") for each in re.findall(r'<a [^>]*href="([^"]+)"', page)]


async def test_a_group_whose_reason_has_two_lines_is_acted_on_as_a_browser_sends_it(world: World) -> None:
    """A browser ends each line of a form's value by CR LF (HTML, 4.10.22.4)."""
    await world.db.execute("select perdure.start('ring', 'a', '{}'), perdure.start('ring', 'b', '{}')")
    await world.db.execute("update perdure.entity set state = 'failed', attention = E'refused: no\nfunds'")
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "bulk")
        group = next(each for each in links(await ann.get("/inbox")) if each.startswith("/inbox/attention"))
        act = next(each for each in links(await ann.get(group)) if each.startswith("/act/cancel"))
        fields = {name: value.replace("\n", "\r\n") for name, value in (await ann.form(act, "/act/cancel")).items()}
        assert any("\r\n" in each for each in fields.values())
        sent = await ann.http.post("/act/cancel", data={**fields, "note": NOTE}, follow_redirects=True)

        async def both() -> bool:
            return "2 requested to end" in readable(await ann.get(sent.url.path))

        await until(both, "both are requested to end")
