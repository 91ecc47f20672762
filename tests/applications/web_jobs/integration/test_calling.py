"""Calls, looks and lists against a real page and a real database: what is on record, and what each answer means."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web as aio

from activities.web_jobs import calling, following, listing, looking_up
from activities.web_jobs.contracts import LAST_LOOK, Answer, Call, Family, Follow, Page, Then
from activities.web_jobs.outcomes import OURS_PAUSE
from activities.web_jobs.resources import Web, lifespan
from activities.web_jobs.settings import web_settings
from perdure import Attempt, Entity, LookupContext, NotDone, Refused
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from tests.applications.web_jobs.conftest import Jobs
from tests.pages import Reply, answers, closes, waits_for

JOB = Call(job="1", type="page")
Make = Callable[..., Attempt]


@pytest.fixture
async def opened(jobs: Jobs) -> AsyncIterator[Web]:
    """What a worker would have opened."""
    async with lifespan(jobs.world.config) as web:
        yield web


@pytest.fixture
def attempt(opened: Web) -> Make:
    """Makes attempts of job 1."""

    def make(seconds: float = 5.0, *, number: int = 1, effect: str = "call-page", id: str = "1") -> Attempt:
        key = Key.of(Entity("web-job", id), effect)
        return Attempt(key, number, datetime.now(UTC), boot_clock() + seconds, resources=opened)

    return make


async def test_a_type_is_read_anew_for_each_call_and_what_is_in_its_way_holds_it(
    jobs: Jobs, attempt: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = {}
    for name, columns in {
        "absent": None,
        "disabled": {"disabled": "under repair"},
        "elsewhere": {"url": "http://elsewhere.example/"},
        "asks-elsewhere": {"doubt": "lookup", "status_url": "http://elsewhere.example/{key}"},
        "no-callback": {"callback": True},
        "no-secret": {"signed_with": "env:PERDURE_TEST_NO_SECRET"},
    }.items():
        if columns is not None:
            await jobs.type(name, **columns)
        with pytest.raises(NotDone) as held:
            await calling.call(JOB.model_copy(update={"type": name}), attempt())
        why[name] = held.value.why
    assert why == {
        "absent": "there is no job type 'absent'",
        "disabled": "the job type disabled is disabled: under repair",
        "elsewhere": "the job type elsewhere can't be called: PERDURE_WEB_ORIGINS does not list http://elsewhere.example",
        "asks-elsewhere": "the job type asks-elsewhere can't be called: "
        "PERDURE_WEB_ORIGINS does not list http://elsewhere.example",
        "no-callback": "the job type no-callback needs callbacks, and PERDURE_WEB_CALLBACK_URL is not set",
        "no-secret": "the job type no-secret can't be signed: "
        "the secret env:PERDURE_TEST_NO_SECRET is not in the environment of this worker",
    }
    assert jobs.pages.asked == []
    await jobs.db.execute("update web_job.type set disabled = null")
    assert (await calling.call(JOB.model_copy(update={"type": "disabled"}), attempt())).status == 200


async def test_a_database_that_does_not_answer_before_the_call_leaves_no_doubt(
    jobs: Jobs, attempt: Make, opened: Web
) -> None:
    await jobs.type()
    await opened.pool.close()
    with pytest.raises(NotDone, match="before the call: the database does not answer"):
        await calling.call(JOB, attempt())
    assert jobs.pages.asked == []


async def test_what_can_not_be_sent_answers_for_no_call_before_it(jobs: Jobs, attempt: Make) -> None:
    await jobs.type(url=jobs.pages.origin + "/{row}")
    with pytest.raises(Refused, match=r"names \{row\}, which is not among the job's params"):
        await calling.call(JOB, attempt())
    await jobs.db.execute(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline, earlier_doubt) "
        "values ($1, 'web-job', '1', 0, 'call-page', 't', 'attempting', 'd', now(), now(), now(), now())",
        str(KEY),
    )
    with pytest.raises(NotDone, match=r"names \{row\}, which is not among the job's params") as later:
        await calling.call(JOB, attempt(number=2))
    assert later.value.retry_after == OURS_PAUSE
    await jobs.db.execute("update perdure.effect set earlier_doubt = null")
    with pytest.raises(Refused):
        await calling.call(JOB, attempt(number=2))
    assert jobs.pages.asked == []


async def test_a_type_has_so_many_calls_at_once_and_others_are_not_held_up(jobs: Jobs, attempt: Make) -> None:
    await jobs.type(at_once=1)
    await jobs.type("other")
    go_on = asyncio.Event()
    jobs.pages.replies["/page"] = [waits_for(go_on, answers({}))]
    first = asyncio.ensure_future(calling.call(JOB, attempt(30)))
    await jobs.world.until(lambda: jobs.pages.asked, "the first call")
    with pytest.raises(NotDone, match="1 of the calls of page are under way here") as busy:
        await calling.call(JOB, attempt())
    assert not busy.value.counts, "a job could use its tries up, and nobody was asked"
    assert timedelta(seconds=1) <= (busy.value.retry_after or timedelta()) <= timedelta(seconds=3)
    assert (await calling.call(JOB.model_copy(update={"type": "other"}), attempt())).status == 200
    go_on.set()
    assert (await first).status == 200
    assert (await calling.call(JOB, attempt())).status == 200


async def test_a_callback_is_expected_before_the_page_hears_of_it(
    jobs: Jobs, attempt: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_URL", "https://app.example/back/")
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_SECRET", "a secret that is long enough")
    web_settings.cache_clear()
    known: list[tuple[str, bool]] = []

    async def reply(request: aio.Request) -> aio.StreamResponse:
        place, _, token = request.headers["Perdure-Callback"].rpartition("/")
        digest = hashlib.sha256(token.encode()).digest()
        row = await jobs.db.fetchval("select job from web_job.callback where digest = $1", digest)
        known.append((token, (place, row) == ("https://app.example/back", "1")))
        return aio.json_response({}, status=202)

    await jobs.type(callback=True)
    await jobs.insert()
    jobs.pages.replies["/page"] = [reply]
    for number in (1, 2):
        assert (await calling.call(JOB, attempt(number=number))).then is Then.CALLBACK
    await calling.call(JOB, attempt(id="2"))
    (token, expected), (again, _), (other, _) = known
    assert expected
    assert len(token) == 64
    assert token == again != other
    asked = LookupContext(attempt().key, datetime.now(UTC), resources=attempt().resources)
    await jobs.db.execute("update web_job.type set doubt = 'lookup', status_url = url")
    jobs.pages.replies["/page"] = [answers({}, 404)]
    assert await looking_up.look_up(JOB, asked) is None
    assert await jobs.db.fetchval("select web_job.called_back($1)", token) == "accepted"
    assert await looking_up.look_up(JOB, asked) == Answer(status=202, then=Then.CALLBACK)


async def test_a_page_that_was_told_where_to_call_back_may_do_so_whatever_its_type_allows_now(
    jobs: Jobs, attempt: Make, opened: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_URL", "https://app.example/back")
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_SECRET", "a secret that is long enough")
    web_settings.cache_clear()
    await jobs.type(callback=True, doubt="lookup", status_url=jobs.pages.origin + "/status{?id}")
    await jobs.insert()
    jobs.pages.replies["/page"] = [answers({}, 429), answers({}, 202)]
    with pytest.raises(NotDone, match="answered 429"):
        await calling.call(JOB, attempt())
    await jobs.db.execute("update web_job.type set callback = false")
    assert (await calling.call(JOB, attempt(number=2))).then is Then.CALLBACK
    first, second = [each.headers["perdure-callback"] for each in jobs.pages.asked]
    assert first == second
    found = await look_up(jobs, opened, answers({}, 202))
    assert found is not None
    assert found.then is Then.CALLBACK


async def look_up(jobs: Jobs, opened: Web, *replies: Reply) -> Answer | None:
    jobs.pages.replies["/status"] = list(replies)
    return await looking_up.look_up(JOB, LookupContext(KEY, datetime.now(UTC), resources=opened))


KEY = Key.of(Entity("web-job", "1"), "call-page")


async def test_a_look_up_is_a_hit_a_miss_or_no_answer(jobs: Jobs, opened: Web) -> None:
    await jobs.type(doubt="lookup", status_url=jobs.pages.origin + "/status{?key,token,id}")
    hit = Answer(status=200, body={"n": 1}, then=Then.NOTHING)
    assert await look_up(jobs, opened, answers({"n": 1})) == hit
    assert jobs.pages.asked[-1].query == {"key": KEY, "token": KEY.token, "id": "1"}
    assert jobs.pages.asked[-1].headers["idempotency-key"] == f'"{KEY}"'
    for status in (404, 410):
        assert await look_up(jobs, opened, answers({}, status)) is None
    for status in (301, 303, 400, 401, 429, 500, 503):
        with pytest.raises(NotDone, match=f"the status URL answered {status}"):
            await look_up(jobs, opened, answers({}, status, Location="/page", Retry_After="60"))
    with pytest.raises(Exception, match="the answer: "):
        await look_up(jobs, opened, closes())
    assert {each.path for each in jobs.pages.asked} == {"/status"}


async def test_a_2xx_of_a_status_url_is_never_a_miss_whatever_its_body(jobs: Jobs, opened: Web) -> None:
    await jobs.type(doubt="lookup", status_url=jobs.pages.origin + "/status{?id}")
    asked = jobs.pages.origin + "/status?id=1"
    for reply, then, location in (
        (answers({}, 202), Then.FOLLOW, asked),
        (answers({}, 202, Location="/jobs/1"), Then.FOLLOW, jobs.pages.origin + "/jobs/1"),
        (answers({}, 202, Location="//elsewhere.example/"), Then.UNUSABLE, None),
        (answers({"children": [{"id": "a/b", "type": "page"}]}), Then.UNUSABLE, None),
    ):
        found = await look_up(jobs, opened, reply)
        assert found is not None
        assert (found.then, found.location) == (then, location)


async def test_a_disabled_type_is_still_asked_what_became_of_its_calls(jobs: Jobs, opened: Web) -> None:
    await jobs.type(doubt="lookup", status_url=jobs.pages.origin + "/status{?id}", disabled="under repair")
    found = await look_up(jobs, opened, answers({}))
    assert found is not None
    assert found.then is Then.NOTHING


async def test_children_on_record_are_found_whatever_the_status_url_answers(jobs: Jobs, opened: Web) -> None:
    await jobs.type(doubt="lookup", status_url=jobs.pages.origin + "/status{?id}")
    await jobs.insert()
    assert await look_up(jobs, opened, answers({}, 404)) is None
    await jobs.db.execute("select web_job.list_children('1', 0, $1, null)", json.dumps([{"id": "a", "type": "page"}]))
    for reply in (answers({}), answers({}, 404), answers({}, 202), closes()):
        assert await look_up(jobs, opened, reply) == Answer(status=200, then=Then.CHILDREN)


async def follow(jobs: Jobs, given: Attempt, *replies: Reply, path: str = "/state") -> Answer:
    jobs.pages.replies[path] = list(replies)
    return await following.follow(Follow(job="1", type="page", location=jobs.pages.origin + path), given)


AT_WORK = answers({"progress": {"part": 1}}, 202, Retry_After="0")


async def test_a_page_that_is_at_work_is_asked_until_it_is_done(jobs: Jobs, attempt: Make) -> None:
    await jobs.type()
    given = attempt(effect="follow-page")
    answer = await follow(jobs, given, AT_WORK, AT_WORK, answers({"n": 1}))
    assert (answer.status, answer.body, given.latest) == (200, {"n": 1}, {"part": 1})
    assert [each.path for each in jobs.pages.asked] == ["/state"] * 3
    jobs.pages.replies["/result"] = [answers({"n": 2})]
    assert (await follow(jobs, given, AT_WORK, answers({}, 303, Location="result"))).body == {"n": 2}
    long = answers("x" * 2_000, 202, Retry_After="0")
    await follow(jobs, given, long, answers({}))
    assert given.latest == "at work"


async def test_a_list_that_an_earlier_look_put_on_record_is_not_lost(jobs: Jobs, attempt: Make) -> None:
    await jobs.type()
    await jobs.insert()
    await jobs.db.execute("select web_job.list_children('1', 0, $1, null)", json.dumps([{"id": "a", "type": "page"}]))
    again = attempt(effect="follow-page", number=2)
    assert (await follow(jobs, again, answers({"n": 1}))).then is Then.CHILDREN


async def test_asking_is_harmless_so_only_a_no_ends_it(jobs: Jobs, attempt: Make) -> None:
    await jobs.type()
    expected: tuple[tuple[Reply, type[NotDone | Refused], str], ...] = (
        (answers({}, 404), Refused, "the page answered 404"),
        (answers({}, 410), Refused, "the page answered 410"),
        (answers({}, 422), Refused, "the page answered 422"),
        (answers({}, 307, Location="/page"), Refused, "the page answered 307"),
        (answers({}, 303, Location="http://evil.example/"), Refused, "answered 303 with another origin"),
        (answers({}, 401), NotDone, "the page answered 401"),
        (answers({}, 500), NotDone, "the page answered 500"),
        (answers({}, 409), NotDone, "the page answered 409"),
        (answers({}, 429, Retry_After="9"), NotDone, "the page answered 429"),
        (closes(), NotDone, "the answer: "),
    )
    for reply, end, why in expected:
        with pytest.raises(end, match=why):
            await follow(jobs, attempt(), reply)


async def test_a_question_that_is_stopped_or_finds_no_database_leaves_no_doubt(jobs: Jobs, attempt: Make) -> None:
    await jobs.type()
    asking = asyncio.ensure_future(follow(jobs, attempt(300), waits_for(asyncio.Event(), answers({}))))
    await jobs.world.until(lambda: jobs.pages.asked, "asked")
    asking.cancel()
    with pytest.raises(NotDone, match="asked how far it is: the attempt was over"):
        await asking
    await jobs.db.execute("alter table web_job.family rename to away")
    with pytest.raises(NotDone, match="asked how far it is: the database does not answer"):
        await follow(jobs, attempt(number=2), answers({}))
    with pytest.raises(NotDone, match="asked for more children: the database does not answer"):
        await listed(jobs, attempt, answers(children("a")))


async def test_a_page_that_has_not_ended_in_its_time_is_asked_a_last_time_and_that_ends_its_job(
    jobs: Jobs, attempt: Make
) -> None:
    await jobs.type()
    over = attempt(300)
    over.useless_at = boot_clock() + LAST_LOOK.total_seconds()
    assert (await follow(jobs, over, answers({}))).status == 200
    for reply, why in ((AT_WORK, "still at work"), (answers({}, 503), "answered 503"), (closes(), "the answer: ")):
        with pytest.raises(Refused, match=f"the page has not ended in its time: .*{why}"):
            await follow(jobs, over, reply)


@pytest.mark.parametrize("place", [{}, {"Location": ""}, {"Location": "/state"}, {"Location": "/round"}])
async def test_a_redirect_that_leads_to_no_result_is_asked_again_only_after_a_pause(
    jobs: Jobs, attempt: Make, place: dict[str, str]
) -> None:
    await jobs.type()
    jobs.pages.replies["/round"] = [answers({}, 303, Location="/state")]
    with pytest.raises(NotDone, match="asked how far it is, the page answered 303"):
        await follow(jobs, attempt(), answers({}, 303, **place))
    assert len(jobs.pages.asked) <= 2


async def test_a_job_whose_page_asks_for_a_long_pause_gives_up_its_slot(jobs: Jobs, attempt: Make) -> None:
    await jobs.type()
    for reply, seconds, pause in (
        (answers({}, 202, Retry_After="90"), 300.0, 90.0),
        (answers({}, 202, Retry_After="4"), 5.0, 4.0),
        (answers({}, 202), 2.5, 1.0),
    ):
        with pytest.raises(NotDone, match=r"^still at work$") as left:
            await follow(jobs, attempt(seconds), reply)
        assert left.value.retry_after == timedelta(seconds=pause)


async def test_a_job_that_only_waits_leaves_its_slot_to_a_job_that_is_due(jobs: Jobs, attempt: Make) -> None:
    await jobs.type(at_once=1)
    waits = asyncio.ensure_future(follow(jobs, attempt(300), answers({}, 202, Retry_After="50"), path="/long"))
    await jobs.world.until(lambda: jobs.pages.asked, "the first is asked")

    async def second() -> Answer | None:
        with suppress(NotDone):  # the first does not wait yet: it has to read the reply of its page
            return await follow(jobs, attempt(300, id="2"), answers({"n": 2}), path="/short")
        return None

    assert (await jobs.world.until(second, "the second has the slot")).body == {"n": 2}
    with pytest.raises(NotDone, match=r"^still at work$") as left:
        await waits
    assert timedelta() < (left.value.retry_after or timedelta()) <= timedelta(seconds=50)
    go_on = asyncio.Event()
    asking = asyncio.ensure_future(follow(jobs, attempt(300), waits_for(go_on, answers({})), path="/slow"))
    await jobs.world.until(lambda: "/slow" in {each.path for each in jobs.pages.asked}, "the third is asked")
    with pytest.raises(NotDone, match="1 of those that page is at work on are under way here"):
        await follow(jobs, attempt(300, id="2"), answers({}), path="/short")
    go_on.set()
    assert (await asking).status == 200
    assert (await follow(jobs, attempt(300, id="2"), answers({}), path="/short")).status == 200


async def test_a_page_is_asked_with_the_key_of_its_call(jobs: Jobs, attempt: Make) -> None:
    await jobs.type()
    await jobs.db.execute(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline) values ($1, 'web-job', '1', 0, 'call-page', 't', 'done', 'd', now(), now(), now())",
        str(KEY),
    )
    await follow(jobs, attempt(effect="follow-page"), answers({}))
    assert jobs.pages.asked[-1].headers["idempotency-key"] == f'"{KEY}"'


def children(*ids: str, type: str = "page") -> dict[str, Any]:
    return {"children": [{"id": each, "type": type} for each in ids]}


async def test_children_are_on_record_before_the_answer_is_and_are_not_asked_for_twice(
    jobs: Jobs, attempt: Make
) -> None:
    await jobs.type(children=["page"])
    await jobs.insert("0")
    jobs.pages.replies["/page"] = [answers(children("a", "b"), Link='<?page=1>; rel="next"')]
    answer = await calling.call(JOB.model_copy(update={"job": "0"}), attempt(id="0"))
    assert (answer.then, answer.children) == (Then.CHILDREN, 2)
    rows = await jobs.db.fetch("select id, state from web_job.job where parent = '0' order by place")
    assert [tuple(row) for row in rows] == [("0/a", "listed"), ("0/b", "listed")]
    again = await calling.call(JOB.model_copy(update={"job": "0"}), attempt(id="0", number=2))
    assert (again.then, len(jobs.pages.asked)) == (Then.CHILDREN, 1)


async def listed(jobs: Jobs, attempt: Make, reply: Reply, number: int = 1, path: str = "/page?page=1") -> Family:
    jobs.pages.replies["/page"] = [reply]
    page = Page(master="0", type="page", url=jobs.pages.origin + path, number=number)
    return await listing.fetch(page, attempt(effect="list-children", id="0"))


async def test_a_page_of_children_is_put_on_record_once(jobs: Jobs, attempt: Make) -> None:
    await jobs.type(children=["page"])
    await jobs.insert("0")
    await jobs.db.execute("select web_job.list_children('0', 0, '[]', 'x')")
    first = await listed(
        jobs, attempt, answers(children("a", "b"), Link='<?page=2>; rel="next", <?page=9>; rel="last"')
    )
    assert (first.listed, first.page, first.next_page) == (2, 2, jobs.pages.origin + "/page?page=2")
    assert await listed(jobs, attempt, closes()) == first, "the page was asked again"
    last = await listed(jobs, attempt, answers(children("b", "c")), 2, "/page?page=2")
    assert (last.listed, last.page, last.next_page) == (3, 3, None)


@pytest.mark.parametrize(
    "link",
    [
        '<?page=2>; rel="last next"',
        '<?page=2>; rel="Next"',
        "<?page=2>; REL=next",
        '<http://[>; rel="help", <?page=2>;rel=next',
    ],
)
async def test_the_next_page_of_children_is_found_however_its_link_is_written(
    jobs: Jobs, attempt: Make, link: str
) -> None:
    await jobs.type(children=["page"])
    await jobs.insert("0")
    await jobs.db.execute("select web_job.list_children('0', 0, '[]', 'x')")
    assert (
        await listed(jobs, attempt, answers(children("a"), Link=link))
    ).next_page == jobs.pages.origin + "/page?page=2"


async def test_a_list_that_can_not_be_used_is_refused_and_none_of_it_is_on_record(jobs: Jobs, attempt: Make) -> None:
    await jobs.type(children=["page"])
    await jobs.insert("0")
    await jobs.db.execute("select web_job.list_children('0', 0, '[]', 'x')")
    await jobs.db.execute(
        "insert into perdure.effect "
        "(key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, receipt) "
        "values ('k', 'web-job', '0', 0, 'list-children/0', 't', 'done', 'd', now(), now(), now(), $1)",
        json.dumps({"next_page": jobs.pages.origin + "/page?page=0"}),
    )
    for reply, why in (
        (answers(children("a", "a")), "child 2 has the id 'a', as another one before it"),
        (answers(["a"]), "it is no list of children"),
        (answers({}, 404), "answered 404"),
        (answers(children("a"), Link="<?page=1>; rel=next"), "the next page of its list is the same page"),
        (answers(children("a"), Link="<//evil.example>; rel=next"), "the next page of its list is at another origin"),
        (answers(children("a"), Link="<http://[>; rel=next"), "the next page of its list is .* its URL can't be read"),
        (answers(children("a"), Link="<?page=0>; rel=next"), "its list goes round in a circle"),
    ):
        with pytest.raises(Refused, match=why):
            await listed(jobs, attempt, reply)
    with pytest.raises(Refused, match="its list has more than 100,000 pages"):
        await listed(jobs, attempt, answers(children("a")), 100_000)
    for broken in (answers({}, 500), closes()):
        with pytest.raises(NotDone):
            await listed(jobs, attempt, broken)
    assert await jobs.db.fetchval("select count(*) from web_job.job where parent = '0'") == 0
