"""Signatures of callbacks are checked as the provider's own library checks them."""

from __future__ import annotations

import hashlib
from urllib.parse import urlencode

import pytest
from twilio.request_validator import RequestValidator  # type: ignore[import-untyped]

from activities.telephony.twilio.signature import is_genuine, signature

TOKEN = "12345"
URL = "https://example.com/myapp?foo=1&bar=2"
FORMS = [
    {},
    {"Digits": "1234", "To": "+18005551212", "From": "+14158675310", "Caller": "+14158675310", "CallSid": "CA1234"},
    {"a": "", "B": "ä € 😀", "c c": "x&y=z+%20"},
]
URLS = [
    URL,
    "https://example.com/telephony?of=dose&id=ann%2F1%202&ref=7K3Q9MXD",
    "http://example.com:8080/x",
    "https://example.com:443/x?y=%C3%A4",
    "https://user:pass@example.com/x",
    "https://example.com/",
    "https://Example.COM/x",
    "https://[2001:db8::1]:8443/x",
]


def validator() -> RequestValidator:
    return RequestValidator(TOKEN)


def by_the_library(url: str, form: dict[str, str]) -> str:
    return str(validator().compute_signature(url, form))


def body(form: dict[str, str]) -> bytes:
    return urlencode(form).encode()


def test_the_documented_example_has_the_documented_signature() -> None:
    form = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+12349013030",
        "Digits": "1234",
        "From": "+12349013030",
        "To": "+18005551212",
    }
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert signature(TOKEN, url, list(form.items())) == "0/KCTR6DLpKmkAf8muzZqo1nDgQ="


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("url", URLS)
def test_a_signature_of_the_providers_library_is_genuine(url: str, form: dict[str, str]) -> None:
    given = by_the_library(url, form)
    assert signature(TOKEN, url, list(form.items())) == given
    assert is_genuine([TOKEN], url, body(form), given)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("https://example.com/x?y=1", "https://example.com:443/x?y=1"),
        ("https://example.com:443/x", "https://example.com/x"),
        ("https://example.com:8443/x", "https://example.com/x"),
        ("http://example.com/x", "http://example.com:80/x"),
    ],
)
def test_with_the_port_or_without_as_the_library_takes_it(ours: str, theirs: str) -> None:
    given = by_the_library(theirs, FORMS[1])
    assert validator().validate(ours, FORMS[1], given)
    assert is_genuine([TOKEN], ours, body(FORMS[1]), given)


@pytest.mark.parametrize(
    ("url", "form", "given"),
    [
        (URL + "&more=1", FORMS[1], None),
        (URL.replace("https", "http"), FORMS[1], None),
        (URL, {**FORMS[1], "Digits": "1235"}, None),
        (URL, {**FORMS[1], "More": ""}, None),
        (URL, FORMS[1], ""),
        (URL, FORMS[1], "ä"),
        (URL, FORMS[1], "AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ],
)
def test_a_changed_request_is_not_genuine(url: str, form: dict[str, str], given: str | None) -> None:
    right = by_the_library(URL, FORMS[1])
    assert not is_genuine([TOKEN], url, body(form), right if given is None else given)


def test_a_signature_of_another_token_is_not_genuine() -> None:
    assert not is_genuine(["12346"], URL, body(FORMS[1]), by_the_library(URL, FORMS[1]))
    assert not is_genuine([], URL, body(FORMS[1]), by_the_library(URL, FORMS[1]))


def test_while_a_token_is_changed_both_count() -> None:
    assert is_genuine(["new", TOKEN], URL, body(FORMS[1]), by_the_library(URL, FORMS[1]))


def test_json_is_genuine_if_the_signed_url_has_its_digest() -> None:
    text = '{"status": "delivered"}'
    url = f"{URL}&bodySHA256={hashlib.sha256(text.encode()).hexdigest()}"
    given = by_the_library(url, {})
    assert validator().validate(url, text, given)
    assert is_genuine([TOKEN], url, text.encode(), given)
    assert not is_genuine([TOKEN], url, b'{"status": "failed"}', given)
    assert not is_genuine([TOKEN], url.replace("bodySHA256", "other"), text.encode(), given)
