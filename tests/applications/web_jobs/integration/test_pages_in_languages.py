"""The sample pages do what they say: signed jobs are done, repeats dropped, and what is signed wrongly refused.

A page is left out, with the reason, where the machine has not got its language.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import shlex
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from activities.web_jobs.settings import web_settings
from infra.demos.job_pages import FILES, PageProcess, missing
from tests.applications.web_jobs.conftest import Jobs
from tests.command import perdure
from tests.deadline import in_time
from workers.web_jobs.app import app

SECRET = "whsec_" + base64.b64encode(b"a secret that the page has too").decode()
ANOTHER = "whsec_" + base64.b64encode(b"a secret that it has not").decode()
COVERED = ("@method", "@target-uri", "content-digest", "idempotency-key", "perdure-job")
WEB_JOBS = Path(__file__).parents[4] / "activities" / "web_jobs" / "README.md"


@pytest.fixture(params=FILES)
async def page(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PageProcess]:
    """One of them, which wants to see `SECRET`."""
    if why := missing(request.param):
        pytest.skip(why)
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setenv("WRONG_SECRET", ANOTHER)
    made = PageProcess(request.param, tmp_path, SECRET)
    await made.start()
    yield made
    await made.end()


async def test_a_page_does_a_signed_job_and_refuses_one_that_is_signed_wrongly(
    jobs: Jobs, page: PageProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_WEB_ORIGINS", page.origin)
    web_settings.cache_clear()
    for name, secret in (
        ("signed", "PAGE_SECRET"),
        ("wrong", "WRONG_SECRET"),
        ("rotating", "WRONG_SECRET env:PAGE_SECRET"),
    ):
        await jobs.type(name, url=page.origin, signed_with=f"env:{secret}")
    await jobs.type("unsigned", url=page.origin)
    async with jobs.world.worker(app):
        for number, name in enumerate(("signed", "wrong", "rotating", "unsigned")):
            await jobs.insert(name, name, payload={"invoice": number})
        await jobs.insert("no invoice", "signed", payload={})
        ends = {id: await jobs.ended(id) for id in ("signed", "rotating", "no invoice")}
        for id in ("wrong", "unsigned"):  # they are called again later: a secret can be corrected
            await jobs.effect_is(id, "call-page", "not_done")
    assert ends == {"signed": "complete", "rotating": "complete", "no invoice": "failed"}
    assert page.worked() == Counter({'{"invoice":0}': 1, '{"invoice":2}': 1})
    told = await jobs.db.fetchval("select body from web_job.result where id = 'signed'")
    assert json.loads(told) == {"invoice": 0, "sent": True}


async def test_a_page_drops_a_repeat_also_when_it_was_killed_in_between_and_gives_the_same_answer(
    page: PageProcess,
) -> None:
    first = await _post(page, "a", b'{"invoice": 7}')
    again = await _post(page, "a", b'{"invoice": 7}')
    page.kill()
    await page.start()
    after = await _post(page, "a", b'{"invoice": 7}')
    other = await _post(page, "b", b'{"invoice": 8}')
    assert first == again == after == (200, {"invoice": 7, "sent": True})
    assert other == (200, {"invoice": 8, "sent": True})
    assert page.worked() == Counter({'{"invoice": 7}': 1, '{"invoice": 8}': 1})
    assert page.dropped() == 2


@pytest.mark.parametrize("language", FILES)
async def test_a_page_without_a_secret_does_not_start(language: str, tmp_path: Path) -> None:
    if why := missing(language):
        pytest.skip(why)
    with pytest.raises(RuntimeError, match="SECRET is not set"):
        await PageProcess(language, tmp_path).start()


async def test_a_page_refuses_an_old_signature(page: PageProcess) -> None:
    status, _ = await _post(page, "a", b'{"invoice": 7}', made_at=int(time.time()) - 310)
    assert status == 401
    assert page.worked() == Counter()


@pytest.mark.parametrize("left_out", COVERED)
async def test_a_page_refuses_a_signature_that_leaves_something_out(page: PageProcess, left_out: str) -> None:
    status, _ = await _post(page, "a", b'{"invoice": 7}', covered=[each for each in COVERED if each != left_out])
    assert status == 401
    assert page.worked() == Counter()


@pytest.mark.parametrize(
    ("language", "block", "most"), [("python", "python", 10), ("node", "js", 10), ("go", "go", 20)]
)
async def test_the_ten_lines_in_the_documentation_are_a_job_type(
    jobs: Jobs, language: str, block: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := missing(language):
        pytest.skip(why)
    [lines] = re.findall(rf"^<!-- page -->\n```{block}\n(.*?)^```$", WEB_JOBS.read_text(), re.MULTILINE | re.DOTALL)
    assert sum(bool(line) for line in lines.splitlines()) <= most
    file = tmp_path / Path(FILES[language]).with_stem("ten_lines")
    page = PageProcess(language, tmp_path, file=file)
    file.write_text(lines.replace("8087", str(page.port)))
    await page.start()
    try:
        monkeypatch.setenv("PERDURE_WEB_ORIGINS", page.origin)
        web_settings.cache_clear()
        await jobs.type(url=page.origin)
        async with jobs.world.worker(app):
            await jobs.insert(payload={"invoice": 7})
            assert await jobs.ended() == "complete"
    finally:
        await page.end()


async def test_a_page_does_nothing_without_a_key(page: PageProcess) -> None:
    """Or it would take the second job for a repeat of the first."""
    status, _ = await _post(page, None, b'{"invoice": 7}')
    assert status == 422
    assert page.worked() == Counter()


async def test_a_page_says_no_to_a_body_that_it_can_not_read(page: PageProcess) -> None:
    """Any answer of 2xx would end the job as done."""
    reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n\r\n")
    answer = await in_time(reader.readline())
    writer.close()
    assert not answer.startswith(b"HTTP/1.1 2")
    assert page.worked() == Counter()


async def _post(
    page: PageProcess, key: str | None, body: bytes, *, made_at: int | None = None, covered: Sequence[str] = COVERED
) -> tuple[int, object]:
    """Signed by this test's own lines, as RFC 9421 has it."""
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    headers = {"Content-Digest": f"sha-256=:{digest}:", "Perdure-Job": "7"}
    if key is not None:
        headers["Idempotency-Key"] = f'"{key}"'
    values = {name.lower(): value for name, value in headers.items()}
    values |= {"@method": "POST", "@target-uri": page.origin + "/"}
    params = "(" + " ".join(f'"{name}"' for name in covered) + f");created={made_at or int(time.time())}"
    base = "".join(f'"{name}": {values.get(name, "")}\n' for name in covered) + f'"@signature-params": {params}'
    mac = hmac.digest(base64.b64decode(SECRET.removeprefix("whsec_")), base.encode(), "sha256")
    headers["Signature-Input"] = f"other={params}, ours={params}"
    headers["Signature"] = f"other=:bm90IG91cnM=:, ours=:{base64.b64encode(mac).decode()}:"
    async with aiohttp.ClientSession() as session, session.post(page.origin, data=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_the_commands_in_the_documentation_make_the_job_types_that_it_names(jobs: Jobs) -> None:
    lines = re.findall(r"^\$ perdure (job-type .*)$", WEB_JOBS.read_text(), re.MULTILINE)
    for line in lines:
        words = shlex.split(line.replace("shop_app", "postgres"), comments=True)
        end = await perdure(jobs.world, *words, PERDURE_APP="workers.web_jobs.app:app")
        assert end.exit_code == 0, end.output
    rows = await jobs.db.fetch("select name, method, doubt from web_job.type order by name")
    assert [tuple(row) for row in rows] == [("old-billing", "GET", "escalate"), ("send-invoice", "POST", "escalate")]
