"""An attacker on the network between a worker and a page, or at its status host, can use nothing of what passes by."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDict

from activities.web_jobs.settings import web_settings
from infra.demos.job_pages import FILES, PageProcess, missing
from tests.applications.web_jobs.conftest import Jobs
from tests.pages import Asked, Pages, answers, closes
from workers.web_jobs.app import app

SECRET = "whsec_" + base64.b64encode(b"a secret that the page has too").decode()


@pytest.fixture(params=FILES)
async def page(
    request: pytest.FixtureRequest, tmp_path: Path, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PageProcess]:
    """A page of activities/web_jobs/pages. All that workers send to it passes the attacker, who is in its place."""
    if why := missing(request.param):
        pytest.skip(why)
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    made = PageProcess(request.param, tmp_path, SECRET, known_as=pages.origin)
    await made.start()
    yield made
    await made.end()


async def test_a_request_that_was_changed_on_the_way_is_refused_and_a_repeat_of_it_is_dropped(
    jobs: Jobs, page: PageProcess
) -> None:
    await jobs.type(path="/", signed_with="env:PAGE_SECRET")
    async with jobs.world.worker(app):
        await jobs.insert(payload={"invoice": 7})
        assert await jobs.ended() == "complete"
    [asked] = jobs.pages.asked
    plain = asked.headers
    fewer = plain["signature-input"].replace(' "idempotency-key"', "")
    twice = CIMultiDict([("idempotency-key", '"another"'), *plain.items()])
    assert await passed_on(page, "/", asked, twice, asked.body) == 401
    assert await passed_on(page, "/", asked, CIMultiDict([*plain.items(), *list(twice.items())[:1]]), asked.body) == 401
    changed: list[tuple[str, dict[str, str], bytes]] = [
        ("/", {"idempotency-key": '"another"'}, asked.body),
        ("/", {"idempotency-key": '"another"', "signature-input": fewer}, asked.body),
        ("/", {"idempotency-key": '"another"', "signature-input": "sig1=();created=1", "signature": "sig1=::"}, b"{}"),
        ("/", {"perdure-job": "8"}, asked.body),
        ("/", {}, b'{"invoice":8}'),
        ("/", {"content-digest": "sha-256=::"}, b'{"invoice":8}'),
        ("/?all=true", {}, asked.body),
        ("/other", {}, asked.body),
        ("/", {"signature": "", "signature-input": ""}, asked.body),
    ]
    for path, headers, body in changed:
        assert await passed_on(page, path, asked, plain | headers, body) == 401, (path, headers, body)
    assert page.worked() == Counter()
    for _ in range(2):
        assert await passed_on(page, "/", asked, plain, asked.body) == 200
    assert page.worked() == Counter({'{"invoice":7}': 1})
    assert page.dropped() == 1


async def test_a_call_without_a_body_is_signed_for_its_own_page_and_method_alone(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    for name, method in (("read", "GET"), ("drop", "DELETE")):
        await jobs.type(name, f"/{name}/{{row}}", method=method, signed_with="env:PAGE_SECRET")
    async with jobs.world.worker(app):
        for id, name, row in (("1", "read", 1), ("2", "read", 2), ("3", "drop", 1)):
            await jobs.insert(id, name, row=row)
            assert await jobs.ended(id) == "complete"
    for each in jobs.pages.asked:
        covered = each.headers["signature-input"].partition(")")[0]
        for part in ("@method", "@target-uri", "content-digest", "idempotency-key", "perdure-job"):
            assert f'"{part}"' in covered


async def test_a_status_host_gets_neither_headers_nor_secret_of_the_page(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what it points to: whoever is asked how far it is, or for a further page of children."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    elsewhere = Pages()
    async with elsewhere.serving():
        monkeypatch.setenv("PERDURE_WEB_ORIGINS", f"{jobs.pages.origin},{elsewhere.origin}")
        web_settings.cache_clear()
        jobs.pages.replies["/page"] = [closes()]
        elsewhere.replies["/status"] = [answers({}, 202)]
        elsewhere.replies["/status"].append(answers({"done": True}))
        await jobs.type(
            timeout=timedelta(seconds=2),
            visibility_delay=timedelta(),
            headers=json.dumps({"Authorization": "Bearer of the page"}),
            signed_with="env:PAGE_SECRET",
            doubt="lookup",
            status_url=f"{elsewhere.origin}/status",
        )
        async with jobs.world.worker(app):
            await jobs.insert()
            assert await jobs.ended() == "complete"
    assert "authorization" in jobs.pages.asked[0].headers
    assert len(elsewhere.asked) >= 2
    for each in elsewhere.asked:
        assert {"authorization", "signature", "signature-input", "webhook-signature"} & set(each.headers) == set()


async def test_a_status_host_gets_what_its_type_declares_for_it(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setenv("STATUS_SECRET", "whsec_" + base64.b64encode(b"a secret of the status host").decode())
    elsewhere = Pages()
    async with elsewhere.serving():
        monkeypatch.setenv("PERDURE_WEB_ORIGINS", f"{jobs.pages.origin},{elsewhere.origin}")
        web_settings.cache_clear()
        jobs.pages.replies["/page"] = [closes()]
        await jobs.type(
            timeout=timedelta(seconds=2),
            visibility_delay=timedelta(),
            signed_with="env:PAGE_SECRET",
            doubt="lookup",
            status_url=f"{elsewhere.origin}/status",
            status_headers=json.dumps({"Authorization": "Bearer of the status host"}),
            status_signed_with="env:STATUS_SECRET",
        )
        async with jobs.world.worker(app):
            await jobs.insert()
            assert await jobs.ended() == "complete"
    [asked] = elsewhere.asked
    assert asked.headers["authorization"] == "Bearer of the status host"
    assert asked.headers["signature"].startswith("sig1=:")
    assert "authorization" not in jobs.pages.asked[0].headers


async def passed_on(page: PageProcess, path: str, asked: Asked, headers: Mapping[str, str], body: bytes) -> int:
    """What the page answers to what the attacker sends."""
    ours = ("host", "content-length", "connection")
    sent = CIMultiDict([(name, value) for name, value in headers.items() if name not in ours])
    async with (
        aiohttp.ClientSession() as session,
        session.request(asked.method, page.origin + path, data=body, headers=sent) as answer,
    ):
        return answer.status
