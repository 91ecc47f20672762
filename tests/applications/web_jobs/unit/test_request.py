"""A request is the same for each attempt, names its job, and is signed so that the page can tell."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.secrets import NoSecret
from activities.web_jobs.contracts import Call
from activities.web_jobs.request import structured, url_of
from activities.web_jobs.signature import secrets, signature_base, signed
from perdure import Entity, Refused
from perdure.contracts import Key
from tests.applications.web_jobs.fixtures import LOCAL, attempt, call, job, job_type, settings
from tests.pages import Pages

SHARED = base64.b64decode("uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==")
"""RFC 9421, B.1.5."""
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


def test_a_signature_is_made_of_the_bytes_of_the_specification() -> None:
    """RFC 9421, B.2.5."""
    values = {
        "date": "Tue, 20 Apr 2021 02:07:55 GMT",
        "@authority": "example.com",
        "content-type": "application/json",
    }
    params = '("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"'
    base = signature_base(list(values), values, params)
    assert base64.b64encode(hmac.digest(SHARED, base, "sha256")) == b"pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8="


def test_a_digest_of_the_body_is_the_one_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9530, B.1 and 2."""
    monkeypatch.setenv("KNOWN", KNOWN)
    sent = {"Idempotency-Key": '"a"', "Perdure-Job": "7"}
    headers = signed("env:KNOWN", "POST", "https://h/", sent, b'{"hello": "world"}\n', 1)
    assert headers["Content-Digest"] == "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"


async def test_a_call_is_signed_with_each_secret_as_it_is_when_it_is_called(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWN", KNOWN)
    file, given = tmp_path / "secret", attempt()
    given.headers["Perdure-Callback"] = "https://jobs/token"
    type_ = job_type(pages.origin + "/a?b=c", signed_with=f"env:KNOWN file:{file}")
    for secret in (OTHER, KNOWN):
        file.write_text(secret + "\n")
        await call(type_, given, job(payload=[1]))
    for asked, last in zip(pages.asked, (OTHER, KNOWN), strict=True):
        first, second = asked.headers["signature-input"].split(", ")
        params = first.removeprefix("sig1=")
        assert second == f"sig2={params}"
        covered = '"@method" "@target-uri" "content-digest" "idempotency-key" "perdure-job" "perdure-callback"'
        found = re.fullmatch(rf'\({covered}\);created=(\d+);alg="hmac-sha256"', params)
        assert found
        assert abs(int(found[1]) - time.time()) < 60
        base = "\n".join(
            (
                '"@method": POST',
                f'"@target-uri": {pages.origin}/a?b=c',
                f'"content-digest": sha-256=:{base64.b64encode(hashlib.sha256(b"[1]").digest()).decode()}:',
                f'"idempotency-key": "{given.key}"',
                '"perdure-job": 7',
                '"perdure-callback": https://jobs/token',
                f'"@signature-params": {params}',
            )
        )
        wanted = (f"sig{n}=:{_mac(each, base)}:" for n, each in enumerate((KNOWN, last), start=1))
        assert asked.headers["signature"] == ", ".join(wanted)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://Host:443/a?b=%2f", "https://host/a?b=%2f"),
        ("http://h:8080", "http://h:8080/"),
        ("http://[::1]:80?x=1", "http://[::1]/?x=1"),
    ],
)
def test_the_url_that_is_signed_is_the_one_that_is_sent_in_its_normal_form(
    url: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWN", KNOWN)
    sent = {"Idempotency-Key": '"a"', "Perdure-Job": "7"}
    assert signed("env:KNOWN", "GET", url, sent, b"", 1) == signed("env:KNOWN", "GET", target, sent, b"", 1)
    assert signed("env:KNOWN", "GET", url + "/other", sent, b"", 1) != signed("env:KNOWN", "GET", target, sent, b"", 1)


def _mac(secret: str, base: str) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return base64.b64encode(hmac.new(key, base.encode(), hashlib.sha256).digest()).decode()


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
