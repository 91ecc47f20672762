"""A request is the same for each attempt, names its job, and is signed so that the page can tell."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.contracts.web_job import Call
from activities.web.request import structured, url_of
from activities.web.signature import NoSecret, secrets, signed
from perdure import Entity, Key, Refused
from tests.pages import Pages
from tests.unit.web_ground import LOCAL, attempt, call, job, job_type, settings

# From the libraries of Standard Webhooks: their own test of a signature.
KNOWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"x" * 24).decode()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    async with Pages().serving() as pages:
        with settings(origins=pages.origin, networks=LOCAL):
            yield pages


async def test_each_attempt_sends_the_same_bytes_and_the_same_key(pages: Pages) -> None:
    given, one = attempt(), job(payload={"b": 1, "a": {"ü": [1.5, None, True]}}, params={"x": 1})
    for _ in range(2):
        await call(job_type(pages.origin + "/"), given, one)
    first, second = pages.asked
    assert first == second
    assert (first.method, first.body) == ("POST", b'{"a":{"\\u00fc":[1.5,null,true]},"b":1}')
    assert first.headers["idempotency-key"] == f'"{given.key}"'
    assert first.headers["content-type"] == "application/json"
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers["perdure-job"] == "7"


async def test_without_a_payload_the_params_are_the_body_and_a_get_has_none(pages: Pages) -> None:
    one = job(params={"rowid": 7, "all": True})
    await call(job_type(pages.origin + "/"), None, one)
    await call(job_type(pages.origin + "/old{?rowid,all}", method="GET"), None, one)
    assert [(each.method, each.query, each.body) for each in pages.asked] == [
        ("POST", {}, b'{"all":true,"rowid":7}'),
        ("GET", {"rowid": "7", "all": "true"}, b""),
    ]
    assert "content-type" not in pages.asked[1].headers


async def test_headers_of_the_type_and_of_the_trace_go_along(pages: Pages) -> None:
    given = attempt()
    given.headers["traceparent"] = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    await call(job_type(pages.origin + "/", headers={"content-type": "application/x+json", "X-Team": "a"}), given)
    [asked] = pages.asked
    assert asked.headers["traceparent"] == given.headers["traceparent"]
    assert (asked.headers["content-type"], asked.headers["x-team"]) == ("application/x+json", "a")


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("http://h/do?rowid={rowid}", "http://h/do?rowid=a%2Fb%26c%3Dd%20%C3%BC"),
        ("http://h/{rowid}", "http://h/a%2Fb%26c%3Dd%20%C3%BC"),
        ("http://h/{id}/{type}", "http://h/7/page"),
        ("http://h/a{?page,of}", "http://h/a"),
        ("http://h/a?b=c{&yes}", "http://h/a?b=c&yes=true"),
    ],
)
def test_params_are_encoded_where_the_url_names_them(template: str, url: str) -> None:
    assert url_of(template, job(params={"rowid": "a/b&c=d ü", "yes": True}), {}) == url


def test_a_param_that_the_url_names_and_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(Refused, match=r"the type's URL names \{rowid\}, which is not among the job's params"):
        url_of("http://h/do?rowid={rowid}", job(), {})


async def test_a_payload_that_is_no_json_is_refused_and_not_sent(pages: Pages) -> None:
    with pytest.raises(Refused, match="NaN"):
        await call(job_type(pages.origin + "/"), None, Call(job="7", type="page", payload=[float("nan")]))
    assert pages.asked == []


def test_the_key_is_a_structured_string_or_its_token_where_it_would_not_fit() -> None:
    def key(id: str) -> Key:
        return Key.of(Entity("web-job", id), "call-page")

    assert structured(key('a "b" \\')) == '"web-job/a \\"b\\" \\\\/call-page"'
    assert structured(key("ü")) == f'"{key("ü").token}"'
    assert structured(key("x" * 255)) == f'"{key("x" * 255).token}"'


def test_a_signature_is_the_one_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWN", KNOWN)
    assert signed("env:KNOWN", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}') == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


async def test_a_call_is_signed_with_each_secret_as_it_is_when_it_is_called(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWN", KNOWN)
    file, given = tmp_path / "secret", attempt()
    type_ = job_type(pages.origin + "/", signed_with=f"env:KNOWN file:{file}")
    for secret in (OTHER, KNOWN):
        file.write_text(secret + "\n")
        await call(type_, given, job(payload=[1]))
    for asked, last in zip(pages.asked, (OTHER, KNOWN), strict=True):
        assert asked.headers["webhook-id"] == given.key.token
        assert abs(int(asked.headers["webhook-timestamp"]) - time.time()) < 60
        content = f"{given.key.token}.{asked.headers['webhook-timestamp']}.".encode() + asked.body
        assert asked.headers["webhook-signature"] == " ".join(_mac(each, content) for each in (KNOWN, last))


def _mac(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (None, "the secret env:GIVEN is not in the environment of this worker"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "the secret env:GIVEN does not begin with whsec_"),
        ("whsec_***", "the secret env:GIVEN is not base64 after whsec_"),
        ("whsec_YWJj", "the secret env:GIVEN has 3 bytes; 24 is the least"),
    ],
)
def test_a_secret_that_can_not_be_used_is_named_and_not_quoted(
    secret: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIVEN", raising=False)
    if secret is not None:
        monkeypatch.setenv("GIVEN", secret)
    with pytest.raises(NoSecret) as error:
        secrets("env:GIVEN")
    assert str(error.value) == says


def test_a_file_without_a_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSecret, match=f"the secret file:{tmp_path}/gone can't be read: No such file"):
        secrets(f"file:{tmp_path}/gone")
