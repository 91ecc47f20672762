"""A page's callback takes effect once, in one transaction with its job, and only with the job's own token."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import aiohttp
import asyncpg
import pytest
from aiohttp import web

from activities.web_jobs.contracts import INLINE_UP_TO
from activities.web_jobs.settings import web_settings
from tests.applications.web_jobs.conftest import Jobs
from tests.command import nobody
from tests.deadline import in_time
from tests.pages import answers, closes
from workers.web_jobs.app import app
from workers.web_jobs.callbacks import MOST, Receiver

TOKEN = "5f" * 32
PARKED = "select attention like '%is in doubt%' from perdure.entity where id = $1"


async def expected(jobs: Jobs, token: str = TOKEN, id: str = "1") -> None:
    """Put a job and the token of its callback on record, as a call does."""
    await jobs.db.execute("insert into web_job.job (id, type) values ($1, 'page') on conflict do nothing", id)
    digest = hashlib.sha256(token.encode()).digest()
    await jobs.db.execute("select web_job.expect_callback($1, $2)", digest, id)


@asynccontextmanager
async def receiving(dsn: str, **options: Any) -> AsyncIterator[str]:
    """A receiver in this process; where it listens."""
    async with (
        asyncpg.create_pool(dsn, min_size=0, max_size=3) as pool,
        Receiver(pool, **options).listening("127.0.0.1", 0) as port,
    ):
        yield f"http://127.0.0.1:{port}"


async def posted(url: str, body: Any = b"", **headers: str) -> tuple[int, str]:
    """Post it; status and text of the answer."""
    data = body if not isinstance(body, (dict, list)) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session, session.post(url, data=data, headers=headers) as answer:
        return answer.status, await answer.text()


async def spoken(url: str, sent: str) -> bytes:
    """All that a connection answers on which this is sent."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(sent.encode())
        return await in_time(reader.read())
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def heard(jobs: Jobs) -> list[Any]:
    """What the jobs were told."""
    rows = await jobs.db.fetch("select payload from perdure.message where name = 'called_back' order by message_id")
    return [json.loads(row["payload"]) for row in rows]


async def test_a_callback_is_heard_once_and_its_repetition_does_no_harm(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    said = {"ok": True, "body": {"rows": [1, 2.5, "ä"]}}
    async with receiving(jobs.world.dsn) as url:
        assert await posted(f"{url}/{TOKEN}", said) == (204, "")
        assert await posted(f"{url}/behind/a/proxy/{TOKEN}?x=y", said) == (204, "")
        assert (await posted(f"{url}/{TOKEN}", {"ok": False}))[0] == 410
    assert await heard(jobs) == [said | {"why": None}]
    assert json.loads(await jobs.db.fetchval("select body from web_job.result")) == said["body"]


async def test_an_empty_body_says_that_it_is_done(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    async with receiving(jobs.world.dsn) as url:
        assert (await posted(f"{url}/{TOKEN}"))[0] == 204
    assert await heard(jobs) == [{"ok": True, "body": None, "why": None}]


async def test_a_callback_without_the_token_is_refused(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    async with receiving(jobs.world.dsn) as url:
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        wrong = ("0" * 64, digest, TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "", "%00", "a" * 300, "'; drop", "ä")
        assert {await posted(f"{url}/{each}") for each in wrong} == {(404, "no such token")}
    assert await heard(jobs) == []


async def test_an_unreadable_callback_is_refused_and_can_be_repeated(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    bad = (
        *(b"{", b"[]", b'"ok"', b'{"ok": "perhaps"}', b'{"okay": true}', b'{"why": 7}', b"\xff"),
        *(b'{"body": NaN}', b'{"body": Infinity}', b'{"body": 1e999}', b'{"body": "\\u0000"}', b'{"body": "\\ud800"}'),
        *(b'{"body": ' + b"[" * deep + b"]" * deep + b"}" for deep in (120, 20000)),
        b'{"why": "\\u0000"}',
    )
    async with receiving(jobs.world.dsn) as url:
        for body in bad:
            assert (await posted(f"{url}/{TOKEN}", body))[0] == 400, body[:40]
        chunked = f"POST /{TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n"
        assert b" 400 " in (await spoken(url, chunked)).partition(b"\r\n")[0]
        packed = gzip.compress(b" " * 10_000_000)
        assert (await posted(f"{url}/{TOKEN}", packed, **{"Content-Encoding": "gzip"}))[0] == 400
        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            async with aiohttp.ClientSession() as session, session.request(method, f"{url}/{TOKEN}") as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert (await posted(f"{url}/{TOKEN}", b'{"ok": false, "why": "no such row"}'))[0] == 204
    assert await heard(jobs) == [{"ok": False, "body": None, "why": "no such row"}]


async def test_no_more_is_read_than_may_be_said(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 8192

    async with receiving(jobs.world.dsn) as url:
        assert (await posted(f"{url}/{TOKEN}", b" " * (MOST + 1)))[0] == 413
        with suppress(aiohttp.ClientOSError):  # it is cut off, and may not see the answer
            status, _ = await in_time(posted(f"{url}/{TOKEN}", endless()))
            assert status == 413
        # What is short as it comes may be longer as PostgreSQL writes it.
        assert (await posted(f"{url}/{TOKEN}", {"body": [1] * (MOST // 3 - 10)}))[0] == 413
        assert (await posted(f"{url}/{TOKEN}", {"body": "x" * (MOST - 100)}))[0] == 204


async def test_a_silent_or_endless_connection_is_closed(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    head = f"POST /{TOKEN} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
    async with receiving(jobs.world.dsn, longest=2) as url:
        cut_off = {
            "": b"",
            "POST /": b"",
            head: b"",
            head + "\r\n{": b"HTTP/1.1 408",
            head + "X: y\r\n" * 500: b"HTTP/1.0 400",
        }
        answered = await asyncio.gather(*(spoken(url, sent) for sent in cut_off))
        assert [answer[:12] for answer in answered] == list(cut_off.values())
    assert await heard(jobs) == []


async def test_a_connection_beyond_the_limit_is_closed_and_earlier_ones_are_served(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    async with receiving(jobs.world.dsn, most=1) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await spoken(url, "") == b""
        writer.write(f"POST /{TOKEN} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert (await in_time(reader.read())).startswith(b"HTTP/1.1 204 ")
        writer.close()
        await writer.wait_closed()


async def test_a_job_that_has_ended_or_was_begun_anew_is_told_nothing(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    await jobs.db.execute("update perdure.ident set final = 'failed' where id = '1'")
    async with receiving(jobs.world.dsn) as url:
        assert (await posted(f"{url}/{TOKEN}"))[0] == 410
        await jobs.db.execute("update perdure.ident set final = null, generation = 1 where id = '1'")
        assert (await posted(f"{url}/{TOKEN}"))[0] == 410
        await expected(jobs, "ab" * 32)
        assert (await posted(f"{url}/{'ab' * 32}"))[0] == 204
    assert len(await heard(jobs)) == 1


async def test_while_the_database_is_away_it_is_to_be_said_again(jobs: Jobs) -> None:
    away = f"postgresql://postgres@{nobody()}/x"
    async with (
        receiving(away) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/{TOKEN}") as answer,
    ):
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert await answer.text() == "not now: say it again"


async def test_no_token_is_logged_not_even_of_a_request_that_is_no_http(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    await jobs.type()
    await expected(jobs)
    with caplog.at_level(logging.DEBUG):
        async with receiving(jobs.world.dsn) as url:
            await posted(f"{url}/{TOKEN}", {"body": "personal"})
            for sent in (f"POST /{TOKEN} HTTP/9.9.9\r\n\r\n", f"POST /x HTTP/1.1\r\n{TOKEN} : y\r\n\r\n"):
                assert (await spoken(url, sent)).startswith(b"HTTP/1.0 400 ")
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "called back" in logged
    assert TOKEN not in logged
    assert "personal" not in logged


async def test_a_page_calls_back_before_its_answer_or_after_and_the_job_ends_as_it_says(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a worker: `before` calls back and answers then, `after` the other way round, `never` does not; `silent`
    breaks off in place of an answer, so that its call is parked in doubt, and calls back then. Inline are the calls of
    `before` and `silent`, whose jobs end in the same way if a busy machine loses the workflow task of the call."""
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_URL", "https://jobs.example.org/said")
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_SECRET", "known to the workers alone")
    web_settings.cache_clear()
    for name in ("before", "silent"):
        await jobs.type(name, callback=True, timeout=INLINE_UP_TO)
    for name in ("after", "broken"):
        await jobs.type(name, callback=True)
    await jobs.type("never", callback=True, within=timedelta(seconds=1))
    async with receiving(jobs.world.dsn) as url, jobs.world.worker(app):

        def place(path: str) -> str:
            [asked] = [each for each in jobs.pages.asked if each.path == path]
            return asked.headers["perdure-callback"].replace("https://jobs.example.org/said", url)

        async def calls_back_first(request: web.Request) -> web.StreamResponse:
            assert (await posted(place("/before"), {"body": "early"}))[0] == 204
            return web.Response(status=202)

        jobs.pages.replies["/before"] = [calls_back_first]
        for path in ("/after", "/broken", "/never"):
            jobs.pages.replies[path] = [answers(status=202)]
        jobs.pages.replies["/silent"] = [closes()]
        for name in ("before", "after", "broken", "never", "silent"):
            await jobs.insert(name, name)
        for path, said in (("/after", {"body": "late"}), ("/broken", {"ok": False, "why": "no such row"})):
            await jobs.effect_is(path[1:], "call-page", "done")
            assert (await posted(place(path), said))[0] == 204
        await jobs.world.until(lambda: jobs.db.fetchval(PARKED, "silent"), "parked")
        assert (await posted(place("/silent")))[0] == 204
        assert [await jobs.ended(name) for name in ("before", "after", "broken", "never", "silent")] == [
            *("complete", "complete", "failed", "failed", "complete")
        ]
        assert await jobs.why("broken") == "no such row"
        assert await jobs.why("never") == "the page has not called back within 0:00:01"
        assert (await posted(place("/never")))[0] == 410
    bodies = await jobs.db.fetch("select id, body from web_job.result")
    assert {row["id"]: row["body"] for row in bodies} == {
        "before": '"early"',
        "after": '"late"',
        "broken": None,
        "never": None,
        "silent": None,
    }
    assert len(jobs.pages.asked) == 5


async def test_the_receiver_is_a_process_that_ends_when_it_is_told_to(jobs: Jobs) -> None:
    await jobs.type()
    await expected(jobs)
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "job-type", "callbacks", "--listen", "127.0.0.1:0"),
        env={**jobs.world.environment(), "PERDURE_APP": "workers.web_jobs.app:app", "PERDURE_LOG": "json"},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert running.stderr is not None
        line = json.loads(await in_time(running.stderr.readline()))
        assert (await posted(f"http://{line['address']}/{TOKEN}"))[0] == 204
        running.send_signal(signal.SIGTERM)
        rest = await in_time(running.stderr.read())
        assert await running.wait() == 0
        assert TOKEN.encode() not in rest
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert len(await heard(jobs)) == 1
