"""A call goes to pages that are listed, at addresses that may be connected to, whatever names and redirects say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from activities.http.addresses import allowed
from activities.web_jobs.origins import forbidden
from activities.web_jobs.outcomes import OURS_PAUSE
from activities.web_jobs.request import url_of
from activities.web_jobs.settings import web_settings
from perdure import InDoubt, NotDone, Refused
from perdure.errors import InvalidSetting
from tests.applications.web_jobs.fixtures import LOCAL, Answers, attempt, call, job, job_type, settings
from tests.pages import Pages, answers

PRIVATE = (
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
    *("168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.0.2.1", "192.168.1.1"),
    *("198.18.0.1", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::"),
    *("::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::7f00:1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
    *("64:ff9b:1::a00:1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "2002:a00:1::1"),
    *("fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%1", "fec0::1", "ff02::1"),
)
PUBLIC = ["1.1.1.1", "93.184.215.14", "::ffff:1.1.1.1", "64:ff9b::101:101", "2606:4700::1111", "2002:101:101::1"]


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    async with Pages().serving() as pages:
        yield pages


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_may_not_be_connected_to(address: str) -> None:
    assert not allowed(address, ())


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_connected_to(address: str) -> None:
    assert allowed(address, ())


def test_a_network_that_is_listed_may_be_connected_to_and_the_one_beside_it_not() -> None:
    networks = (ip_network("10.1.0.0/16"), ip_network("fd00:1::/32"))
    assert [allowed(each, networks) for each in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::9")] == [True] * 3
    assert [allowed(each, networks) for each in ("10.2.0.1", "::ffff:10.2.0.1", "fd00:2::9")] == [False] * 3


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://billing.example/a", None),
        ("HTTPS://Billing.Example:443/{a}", None),
        ("http://old.example:8080/?q={q}", None),
        ("http://billing.example/", "PERDURE_WEB_ORIGINS does not list http://billing.example"),
        ("https://billing.example:8443/", "PERDURE_WEB_ORIGINS does not list https://billing.example:8443"),
        ("https://billing.example.evil.example/", "does not list https://billing.example.evil.example"),
        ("https://billing.example./", "does not list https://billing.example."),
        ("https://billing.example@evil.example/", "its URL names a user"),
        ("https://user:word@billing.example/", "its URL names a user"),
        ("https://evil.example\\@billing.example/", "its URL can't be read"),
        ("ftp://billing.example/", "its URL can't be read"),
        ("//billing.example/", "its URL can't be read"),
        ("https:///a", "its URL can't be read"),
    ],
)
def test_only_what_is_listed_may_be_called(url: str, why: str | None) -> None:
    with settings(origins="https://billing.example, http://old.example:8080/"):
        found = forbidden(url)
    assert found == why if why is None else why in (found or "")


def test_without_a_list_nothing_may_be_called_and_with_a_star_whatever_is_public() -> None:
    with settings():
        assert forbidden("https://billing.example/") is not None
    with settings(origins="*"):
        assert forbidden("https://billing.example/") is None
        assert forbidden("http://[::ffff:10.0.0.1]/") is not None
        assert forbidden("http://169.254.169.254/latest/") == (
            "169.254.169.254 is no public address, and PERDURE_WEB_NETWORKS does not list it"
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.0.0.1", "localhost"])
async def test_no_spelling_of_an_address_gets_round_the_list(pages: Pages, host: str) -> None:
    with settings(origins="*"), pytest.raises((NotDone, Refused)):
        await call(job_type(f"http://{host}:{pages.port}/"))
    assert pages.asked == []


async def test_a_name_that_leads_to_a_private_address_is_refused_unless_that_is_listed(pages: Pages) -> None:
    url = f"http://page.example:{pages.port}/"
    with settings(origins=url), pytest.raises(NotDone, match=r"^127\.0\.0\.1 is no public address") as end:
        await call(job_type(url), attempt(names=Answers("127.0.0.1")))
    assert (end.value.retry_after, pages.asked) == (OURS_PAUSE, [])
    with settings(origins=url, networks=LOCAL):
        assert (await call(job_type(url), attempt(names=Answers("127.0.0.1")))).status == 200


async def test_a_name_that_answers_otherwise_the_second_time_is_caught_where_it_is_connected_to(pages: Pages) -> None:
    url, rebinding = f"http://page.example:{pages.port}/", Answers("127.0.0.1", "127.0.0.2")
    with settings(origins=url, networks="127.0.0.1/32"):
        await call(job_type(url), attempt(names=rebinding))
        with pytest.raises(NotDone, match=r"^127\.0\.0\.2 is no public address"):
            await call(job_type(url), attempt(names=rebinding))
    assert len(pages.asked) == 1


async def test_of_several_addresses_only_those_are_tried_that_may_be(pages: Pages) -> None:
    url = f"http://page.example:{pages.port}/"
    with settings(origins=url, networks="127.0.0.2/32"), pytest.raises(NotDone, match="connecting: "):
        await call(job_type(url), attempt(names=Answers("127.0.0.2 127.0.0.1")))  # nobody listens at the first
    assert pages.asked == []
    with settings(origins=url, networks="127.0.0.1/32"):
        assert (await call(job_type(url), attempt(names=Answers("127.0.0.2 127.0.0.1")))).status == 200


async def test_a_page_that_is_not_listed_any_more_is_not_called(pages: Pages) -> None:
    missing = pytest.raises(NotDone, match=f"^PERDURE_WEB_ORIGINS does not list {pages.origin}$")
    with settings(origins="https://page.example", networks=LOCAL), missing:
        await call(job_type(pages.origin + "/"))
    assert pages.asked == []


async def test_a_redirect_is_not_followed(pages: Pages) -> None:
    ends = {}
    with settings(origins=pages.origin, networks=LOCAL):
        for status in (301, 302, 303, 307, 308):
            pages.replies["/"] = [answers({}, status, Location="/elsewhere")]
            with pytest.raises((Refused, InDoubt)) as end:
                await call(job_type(pages.origin + "/", method="GET"))
            ends[status] = type(end.value)
    assert ends == {301: Refused, 302: InDoubt, 303: InDoubt, 307: Refused, 308: Refused}
    assert {each.path for each in pages.asked} == {"/"}


async def test_a_proxy_in_the_environment_gets_nothing(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Pages().serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        monkeypatch.delenv("no_proxy", raising=False)
        with settings(origins=pages.origin, networks=LOCAL):
            await call(job_type(pages.origin + "/"))
        assert (len(pages.asked), proxy.asked) == (1, [])


@pytest.mark.parametrize("value", ["..", ".", "a/../../admin"])
async def test_a_param_does_not_lead_to_another_page_of_the_same_host(value: str) -> None:
    with pytest.raises(Refused, match="which would lead to another page"):
        url_of("http://h/jobs/{file}/run", job(params={"file": value}), {})


def test_a_param_that_is_encoded_already_is_encoded_once_more() -> None:
    url = url_of("http://h/jobs/{file}/run", job(params={"file": "%2e%2e/admin"}), {})
    assert url == "http://h/jobs/%252e%252e%2Fadmin/run"


async def test_a_page_can_set_no_cookie_for_the_next_call(pages: Pages) -> None:
    pages.replies["/"] = [answers({}, Set_Cookie="a=b")]
    with settings(origins=pages.origin, networks=LOCAL):
        given = attempt()
        await call(job_type(pages.origin + "/"), given)
        await call(job_type(pages.origin + "/"), given)
    assert ["cookie" in each.headers for each in pages.asked] == [False, False]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"origins": "billing.example"}, "PERDURE_WEB_ORIGINS: 'billing.example' is no origin"),
        (
            {"origins": "https://billing.example/jobs"},
            "PERDURE_WEB_ORIGINS: 'https://billing.example/jobs' is no origin",
        ),
        ({"networks": "10.0.0.1/8"}, "PERDURE_WEB_NETWORKS: 10.0.0.1/8 has host bits set: write networks as"),
        ({"ca_file": "/nowhere.pem"}, "PERDURE_WEB_CA_FILE: can't be used as certificates"),
        ({"callback_url": "app.example/back"}, "PERDURE_WEB_CALLBACK_URL: is no URL that pages can call"),
        ({"callback_secret": "short"}, "PERDURE_WEB_CALLBACK_SECRET: is shorter than 16 characters"),
        ({"most_response": "1"}, "PERDURE_WEB_MOST_RESPONSE: "),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, str], says: str) -> None:
    with settings(**given), pytest.raises(InvalidSetting, match=f"^{says.replace('(', '.')}"):
        web_settings()
