"""What the console trusts: its own folder, one header of groups, sessions under the rules of today."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from perdure._operations.reach import EVERYTHING
from perdure.console.chosen import finished_ones, instant
from perdure.console.folder import FORM_AGE, Folder
from perdure.console.guarding import browser
from perdure.console.identity import Proxy
from perdure.console.openid import OpenId
from perdure.console.roles import Grant, Person
from perdure.console.security import Forms
from perdure.console.sessions import Sessions
from perdure.errors import InvalidSetting


def request(*headers: tuple[str, str]) -> Request:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return Request({"type": "http", "headers": encoded, "client": ("127.0.0.1", 1), "path": "/"})


def test_a_folder_of_another_user_and_an_empty_key_are_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder.opened(tmp_path / "console")
    assert len(folder.secret()) == 32
    (folder.path / "secret").write_bytes(b"")
    with pytest.raises(InvalidSetting, match="is no key: remove it"):
        folder.secret()
    monkeypatch.setattr(os, "geteuid", lambda: folder.path.stat().st_uid + 1)
    with pytest.raises(InvalidSetting, match="another user owns it"):
        Folder.opened(folder.path)


async def test_a_second_header_of_groups_counts_for_nothing() -> None:
    proxy = Proxy("x-user", ["127.0.0.1"], {"group:ops": Person.granted("settle")}, "x-groups")
    one = await proxy.person(request(("x-user", "ann"), ("x-groups", "ops")))
    two = await proxy.person(request(("x-user", "ann"), ("x-groups", "ops"), ("x-groups", "dev")))
    assert one is not None
    assert two is not None
    assert (one.grants, two.grants) == (Person.granted("settle"), ())


def test_a_session_ends_when_other_grants_are_configured(tmp_path: Path) -> None:
    sessions = Sessions(Folder.opened(tmp_path / "console"), b"k" * 32)

    def provider(granting: dict[str, tuple[Grant, ...]]) -> OpenId:
        return OpenId("https://id.example", "console", "secret", granting, sessions)

    before, after = provider({"ann": Person.granted("administer")}), provider({"ann": Person.granted("look")})
    answer = Response()
    before.sessions.begin(answer, Person("ann", Person.granted("administer")), path="/", secure=True)
    sent = request(("cookie", answer.headers["set-cookie"].partition(";")[0]))
    assert before.sessions.person(sent) is not None
    assert after.sessions.person(sent) is None
    assert sessions.person(sent) is None, "nor does it count where people sign in otherwise"


def test_a_cookie_that_no_console_made_is_refused_as_one(tmp_path: Path) -> None:
    forms, odd = Forms(Folder.opened(tmp_path / "console")), "\xe9" * 20
    sent = request(("cookie", f"perdure-console-visitor={odd}"))
    assert browser(sent)[0] is False
    assert (
        forms.refusal(sent, forms.token("v" * 20, None), odd, None)
        == "it was made for another browser or another person"
    )


def test_forms_that_are_too_old_to_be_sent_leave_no_trace(tmp_path: Path) -> None:
    folder, now = Folder.opened(tmp_path / "console"), time.time()
    assert folder.use_form("a", now - FORM_AGE - 2 * 3600)
    assert folder.use_form("a", now)
    assert not folder.use_form("a", now)
    assert folder.use_form("b", now)
    [hour] = (folder.path / "forms").iterdir()
    assert len(list(hour.iterdir())) == 2
    assert all(each.name != "a" for each in hour.iterdir()), "no name in it is what a browser sent"


def test_a_token_that_is_used_while_its_person_is_revoked_begins_no_session(tmp_path: Path) -> None:
    folder, ann = Folder.opened(tmp_path / "console"), Person("ann", Person.granted("look"))
    token, began = folder.add_token(ann, 60), time.time()
    with folder.taking_token(token) as taken:
        assert taken == ann
    folder.revoke("ann")
    folder.begin("session", ann, began, began + 60)
    assert not folder.lasts("session", "ann", began)
    later = folder.add_token(ann, 60)
    (folder.path / "tokens" / hashlib.sha256(later.encode()).hexdigest()).rename(folder.path / "kept")
    folder.revoke("ann")
    (folder.path / "kept").rename(folder.path / "tokens" / hashlib.sha256(later.encode()).hexdigest())
    with folder.taking_token(later) as taken:
        assert taken is None


def test_what_ends_after_the_preview_is_not_chosen() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    assert finished_ones({}, EVERYTHING, until).before == until
    assert finished_ones({"before": "2029-01-01T00:00Z"}, EVERYTHING, until).before == datetime(2029, 1, 1, tzinfo=UTC)
    assert finished_ones({"before": "2031-01-01T00:00Z"}, EVERYTHING, until).before == until


def test_a_time_without_a_zone_is_in_utc_as_on_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
        for text in ("2026-07-01 12:00", "2026-07-01T12:00Z", "2026-07-01T08:00-04:00"):
            assert instant(text) == noon, text
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_a_name_from_a_proxy_is_read_in_utf_8_or_latin_1(encoding: str) -> None:
    proxy = Proxy(
        "x-user", ["127.0.0.1"], {"José": Person.granted("look"), "group:Küche": Person.granted("settle")}, "x-groups"
    )
    sent = [
        (name, value.encode(encoding).decode("latin-1")) for name, value in (("x-user", "José"), ("x-groups", "Küche"))
    ]
    assert await proxy.person(request(*sent)) == Person("José", Person.granted("look") + Person.granted("settle"))


async def test_a_proxy_by_ipv4_counts_at_a_socket_of_both() -> None:
    proxy = Proxy("x-user", ["10.0.0.0/8"], {"ann": Person.granted("look")})
    for host, known in (("::ffff:10.0.0.7", True), ("::ffff:11.0.0.7", False), ("10.0.0.7", True), ("::1", False)):
        sent = request(("x-user", "ann"))
        sent.scope["client"] = (host, 1)
        assert (await proxy.person(sent) is not None) is known, host


async def test_a_person_who_is_named_as_a_group_has_nothing_of_it() -> None:
    proxy = Proxy("x-user", ["127.0.0.1"], {"group:ops": Person.granted("settle")}, "x-groups")
    for name in ("ops", "group:ops", "*"):
        stranger = await proxy.person(request(("x-user", name)))
        assert stranger is None or stranger.grants == (), name
