"""What the tests of telephony stand on: settings, notices, attempts and questions about them; no database."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from activities.telephony.contracts import Notice
from activities.telephony.settings import telephony_settings
from activities.telephony.twilio.resources import Telephony
from infra.telephony.server import ACCOUNT, TOKEN, TelephonyServer
from perdure import Attempt, Entity, LookupContext
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from perdure.encryption import Private

NUMBER = "+15552223333"
TEXT = "Take 5 mg of Warfarin now & sleep <well>."
CALLBACKS = "https://127.0.0.1:9/telephony"
_numbers = itertools.count(1)


def notice(to: str = NUMBER, text: str = TEXT, *, minutes: float = 60, **fields: Any) -> Notice:
    """A notice that is of use for so long."""
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    return Notice(to=Private(to), text=Private(text), until=until, **fields)


def key(effect: str = "send-sms") -> Key:
    """A key that no other has."""
    return Key.of(Entity("dose", f"ann/morning~{next(_numbers)}/2026-03-01T08:00"), effect)


def attempt(seconds: float = 60.0, *, of: Key | None = None) -> Attempt:
    """An attempt that has so many seconds left."""
    return Attempt(of or key(), 1, datetime.now(UTC), boot_clock() + seconds, resources=Telephony())


def question(of: Key, *, minutes_ago: float = 0) -> LookupContext:
    """What became of it?"""
    return LookupContext(of, datetime.now(UTC) - timedelta(minutes=minutes_ago), resources=Telephony())


@contextmanager
def settings(**given: object) -> Iterator[None]:
    """Let the settings be exactly these, e.g. `sender="+1500"` for PERDURE_TELEPHONY_SENDER."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PERDURE_TELEPHONY_")}
    _replace({f"PERDURE_TELEPHONY_{name.upper()}": str(value) for name, value in given.items()})
    try:
        yield
    finally:
        _replace(before)


def of_server(server: TelephonyServer, **more: object) -> dict[str, object]:
    """The settings by which a stand-in is used."""
    base: dict[str, object] = {
        "api_url": server.origin,
        "account_sid": ACCOUNT,
        "auth_token": TOKEN,
        "sender": "+15005550006",
        "callback_url": CALLBACKS,
    }
    return base | more


def _replace(variables: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("PERDURE_TELEPHONY_")]:
        del os.environ[name]
    os.environ.update(variables)
    telephony_settings.cache_clear()
