"""What stands in a row or in an answer of a page stays data: no header, URL, recipient or variable is made of it."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import ValidationError

from activities.http.exchange import Exchange, HttpRequest
from activities.http.names import Names
from activities.mail.contracts.mail import Mail
from activities.mail.sendmail import send_by_sendmail
from activities.web_jobs.job_type import JobType
from activities.web_jobs.request import structured, url_of
from activities.web_jobs.settings import web_settings
from perdure import Entity
from perdure.contracts import Key
from tests.applications.mail import fixtures as mail
from tests.applications.web_jobs import fixtures as web_jobs
from tests.pages import Pages


@pytest.mark.parametrize("url", ["https://host/{+path}", "https://host/a?b={+c}", "https://host/{+a,b:3}"])
def test_no_param_may_bring_its_own_slashes_and_question_marks(url: str) -> None:
    """RFC 6570, 3.2.3: reserved expansion encodes neither, so that a param would choose path and query of the call."""
    with pytest.raises(ValidationError, match="would let a param change the rest of the URL"):
        JobType.model_validate({"name": "page", "url": url})


@pytest.mark.parametrize("value", ["x?admin=true", "x#y", "x\r\nHost: evil.example", "//evil.example", "@evil"])
@pytest.mark.parametrize("template", ["http://h/a/{p}", "http://h/a{?p}", "http://h/a?q=1{&p}", "http://h/a{/p}"])
def test_a_param_changes_nothing_but_its_own_place_in_the_url(template: str, value: str) -> None:
    url = url_of(template, web_jobs.job(params={"p": value}), {})
    assert url.startswith("http://h/a")
    rest = url.removeprefix("http://h/a").removeprefix("?q=1").removeprefix("?p=").removeprefix("&p=").removeprefix("/")
    assert not set(rest) & set("?#/@&\r\n ")


def test_a_job_s_id_ends_no_header() -> None:
    key = Key.of(Entity("web-job", '7", x="'), "call-page")
    assert structured(key) == '"web-job/7\\", x=\\"/call-page"'


async def test_a_small_answer_that_would_be_a_large_one_is_not_unpacked() -> None:
    bomb = gzip.compress(b'{"children": [' + b" " * 50_000_000 + b"]}")

    async def answers(_: web.Request) -> web.StreamResponse:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})

    async with Pages(replies={"/": [answers]}).serving() as pages:
        with web_jobs.settings(origins=pages.origin, networks=web_jobs.LOCAL):
            tracemalloc.start()
            reply = await Exchange(
                HttpRequest("GET", pages.origin + "/"), Names(), bounds=web_settings().bounds, seconds=30
            ).make()
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert reply.body == bomb
    assert most < 10 * len(bomb) + 5_000_000


@pytest.mark.parametrize(
    "name", ["Apparently-To", "Resent-To", "bcc", "Delivered-To", "Errors-To", "Return-Receipt-To"]
)
def test_no_header_of_a_mail_adds_a_recipient_or_leads_its_bounces_away(name: str) -> None:
    with pytest.raises(ValidationError, match="don't give it in headers"):
        Mail(sender="a@b.example", recipient="c@d.example", subject="", body="", headers={name: "eve@evil.example"})


async def test_sendmail_gets_the_variables_that_it_needs_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its children, such as a filter, write their environment into logs and bounces."""
    for name in ("BILLING_SECRET", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "PERDURE_DATABASE_URL", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("MAIL_CONFIG", "/etc/postfix-out")
    program = tmp_path / "sendmail"
    program.write_text(f"#!/bin/sh\nenv > {json.dumps(str(tmp_path / 'environment'))}\n")
    program.chmod(0o755)
    with mail.settings(sendmail=program):
        await send_by_sendmail(mail.LETTER, mail.attempt())
    told = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines())
    assert (told["MAIL_CONFIG"], told["LC_ALL"], "PATH" in told) == ("/etc/postfix-out", "C", True)
    assert "hush" not in told.values()
