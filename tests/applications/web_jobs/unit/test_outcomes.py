"""What each status of a page means for its job, shown by a real server that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from activities.http.retry_after import LONGEST_PAUSE, pause_of
from activities.web_jobs.contracts import Then
from activities.web_jobs.outcomes import OURS_PAUSE, TABLE, ending
from perdure import InDoubt, NotDone, Refused
from tests.applications.web_jobs.fixtures import LOCAL, attempt, call, job_type, settings
from tests.pages import Pages, answers

STATUSES: dict[type[Exception] | None, tuple[int, ...]] = {
    None: (200, 201, 202, 203, 204, 206, 299),
    NotDone: (401, 403, 407, 408, 409, 425, 429),
    Refused: (301, 307, 308, 400, 404, 405, 410, 412, 413, 415, 421, 422, 451, 499),
    InDoubt: (300, 302, 303, 304, 500, 501, 502, 503, 504, 507, 599),
}

NO_DATES = ("Fri, 31 Dec 99999999999 23:59:59 GMT", "Fri, 31 Dec 2026 23:59:59 +99999999999999999")
"""A year and a zone that no integer of C holds."""


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    async with Pages().serving() as pages:
        with settings(origins=pages.origin, networks=LOCAL):
            yield pages


async def ending_of(pages: Pages, status: int, *, number: int = 1, **fields: object) -> Exception | None:
    pages.replies["/"] = [answers({}, status, Location="/elsewhere") if status != 202 else answers({}, 202)]
    try:
        await call(job_type(pages.origin + "/", **fields), attempt(number=number))
    except (NotDone, Refused, InDoubt) as error:
        return error
    return None


async def test_each_status_ends_the_attempt_as_the_standards_say(pages: Pages) -> None:
    found: dict[int, type[Exception] | None] = {}
    for status in sorted(status for some in STATUSES.values() for status in some):
        end = await ending_of(pages, status)
        found[status] = None if end is None else type(end)
    assert found == {status: end for end, some in STATUSES.items() for status in some}
    assert len(pages.asked) == len(found), "the client followed a redirect, or tried again on its own"
    assert {each.path for each in pages.asked} == {"/"}


def test_the_table_has_no_entry_that_is_not_tried_here() -> None:
    assert set(TABLE) <= {status for some in STATUSES.values() for status in some}


async def test_a_conflict_leaves_doubt_where_an_attempt_was_begun_before(pages: Pages) -> None:
    assert isinstance(await ending_of(pages, 409, number=1), NotDone)
    assert isinstance(await ending_of(pages, 409, number=2), InDoubt)


@pytest.mark.parametrize("status", [401, 403, 407])
async def test_a_page_that_refuses_the_workers_is_called_again_after_a_long_pause(pages: Pages, status: int) -> None:
    for number in (1, 2):
        end = await ending_of(pages, status, number=number)
        assert isinstance(end, NotDone)
        assert end.retry_after == OURS_PAUSE


@pytest.mark.parametrize("status", [301, 307, 308, 404, 405, 410, 412, 421])
def test_a_refusal_that_does_not_answer_for_an_earlier_attempt_leaves_its_doubt(status: int) -> None:
    assert isinstance(ending(status, first=False, doubted=True), InDoubt)
    assert isinstance(ending(status, first=False, doubted=False), Refused)


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_of_the_request_itself_answers_for_its_key(status: int) -> None:
    assert isinstance(ending(status, first=False, doubted=True), Refused)


async def test_a_page_may_declare_which_errors_did_nothing(pages: Pages) -> None:
    assert isinstance(await ending_of(pages, 503, not_done=(503,)), NotDone)
    assert isinstance(await ending_of(pages, 502, not_done=(503,)), InDoubt)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_page_that_asks_to_be_left_alone_is(pages: Pages, status: int) -> None:
    pages.replies["/"] = [answers({}, status, Retry_After="7")]
    with pytest.raises(NotDone) as not_done:
        await call(job_type(pages.origin + "/", not_done=(503,)))
    assert not_done.value.retry_after == timedelta(seconds=7)


async def test_a_link_that_can_not_be_read_leaves_no_doubt(pages: Pages) -> None:
    bad = '<http://[>; rel="next"'
    pages.replies["/"] = [answers({}, 200, Link=bad), answers({}, 404, Link=bad), answers({"children": []}, Link=bad)]
    assert (await call(job_type(pages.origin + "/"))).then is Then.NOTHING
    with pytest.raises(Refused, match=r"^answered 404$"):
        await call(job_type(pages.origin + "/"))
    with pytest.raises(Refused, match="so it was called; but its children can't be used: the next page of its list is"):
        await call(job_type(pages.origin + "/"))


async def test_no_reason_says_what_the_page_said_or_was_asked(pages: Pages) -> None:
    ends = []
    for status in (400, 429, 500):
        pages.replies["/x"] = [answers({"secret": "s3cret"}, status)]
        with pytest.raises((NotDone, Refused, InDoubt)) as end:
            await call(job_type(pages.origin + "/x?k=s3cret", headers={"Authorization": "s3cret"}))
        ends.append(str(end.value))
    assert ends == ["answered 400", "answered 429", "answered 500"]


@pytest.mark.parametrize(
    ("given", "pause"),
    [
        ("0", timedelta(0)),
        (" 120 ", timedelta(minutes=2)),
        ("Sat, 21 Nov 2026 12:00:30 GMT", timedelta(seconds=30)),
        ("Saturday, 21-Nov-26 12:00:30 GMT", timedelta(seconds=30)),
        ("Sat, 21 Nov 2026 11:00:00 GMT", timedelta(0)),
        ("9" * 400, LONGEST_PAUSE),
        ("Sat, 21 Nov 2099 12:00:00 GMT", LONGEST_PAUSE),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
        *((garbage, None) for garbage in NO_DATES),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_never_too_long(given: str | None, pause: timedelta | None) -> None:
    assert pause_of(given, datetime(2026, 11, 21, 12, tzinfo=UTC)) == pause


async def test_202_says_where_to_ask_or_that_the_page_calls_back_or_nothing_more(pages: Pages) -> None:
    pages.replies["/jobs/new"] = [answers({"n": 1}, 202, Location="../states/7?a=b", Retry_After="3")]
    pages.replies["/"] = [answers({}, 202)]
    asked = await call(job_type(pages.origin + "/jobs/new"))
    assert (asked.then, asked.location, asked.retry_after) == (Then.FOLLOW, f"{pages.origin}/states/7?a=b", 3.0)
    assert (await call(job_type(pages.origin + "/", callback=True))).then is Then.CALLBACK
    assert (await call(job_type(pages.origin + "/"))).then is Then.NOTHING


async def test_a_location_is_made_fit_to_be_asked(pages: Pages) -> None:
    for given, location in (
        ("/a b?c=d%2Be#f", "/a%20b?c=d%2Be"),
        ("/%C3%BC/../x%2Fy", "/x%2Fy"),
        (pages.origin + "/z", "/z"),
        ("?q", "/jobs/new?q"),
    ):
        pages.replies["/jobs/new"] = [answers({}, 202, Location=given)]
        assert (await call(job_type(pages.origin + "/jobs/new"))).location == pages.origin + location


@pytest.mark.parametrize("garbage", NO_DATES)
async def test_a_retry_after_that_is_no_date_changes_no_outcome(pages: Pages, garbage: str) -> None:
    """An exception after the answer would leave the call in doubt, and it would be made again."""
    pages.replies["/done"] = [answers({}, Retry_After=garbage)]
    pages.replies["/busy"] = [answers({}, 429, Retry_After=garbage)]
    assert (await call(job_type(pages.origin + "/done"))).then is Then.NOTHING
    with pytest.raises(NotDone, match="answered 429"):
        await call(job_type(pages.origin + "/busy"))


async def test_202_with_a_location_that_can_not_be_read_is_refused(pages: Pages) -> None:
    pages.replies["/"] = [answers({}, 202, Location="//[]@/states/7")]
    with pytest.raises(Refused, match="at another origin, or its Location can't be read"):
        await call(job_type(pages.origin + "/"))


async def test_202_with_a_location_at_another_origin_is_refused(pages: Pages) -> None:
    pages.replies["/"] = [answers({}, 202, Location=f"http://localhost:{pages.port}/states/7")]
    with pytest.raises(Refused, match="answered 202, so it is at work; but at another origin"):
        await call(job_type(pages.origin + "/"))


async def test_calls_at_the_same_time_stay_apart(pages: Pages) -> None:
    pages.replies["/a"], pages.replies["/b"] = [answers("a")], [answers("b", 201)]
    a, b = await asyncio.gather(*(call(job_type(pages.origin + path)) for path in ("/a", "/b")))
    assert ((a.status, a.body), (b.status, b.body)) == ((200, "a"), (201, "b"))
