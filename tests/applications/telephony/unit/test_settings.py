"""A worker with wrong settings of telephony does not start, and says what is wrong without showing a secret."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from activities.telephony.settings import telephony_settings
from activities.telephony.twilio.credentials import authorization
from activities.telephony.twilio.resources import check_complete, lifespan
from perdure import Settings
from perdure.errors import InvalidSetting
from tests.applications.telephony.fixtures import settings

WHOLE = {"account_sid": "AC" + "1" * 32, "auth_token": "hush" * 8, "sender": "+15005550006"}


def refusal(**given: object) -> str:
    """What is said of these settings; empty if nothing."""
    with settings(**given):
        try:
            check_complete(telephony_settings())
        except InvalidSetting as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"api_url": "ftp://x"}, "PERDURE_TELEPHONY_API_URL"),
        ({"api_url": "https://api.twilio.com/2010-04-01"}, "PERDURE_TELEPHONY_API_URL"),
        ({"api_url": "http://api.twilio.com"}, "has to be https"),
        ({"account_sid": "AC1"}, "PERDURE_TELEPHONY_ACCOUNT_SID"),
        ({"sender": "much too long a name"}, "PERDURE_TELEPHONY_SENDER"),
        ({"sender": "123 456"}, "PERDURE_TELEPHONY_SENDER"),
        ({"caller": "Clinic"}, "PERDURE_TELEPHONY_CALLER"),
        ({"callback_url": "hooks.example"}, "PERDURE_TELEPHONY_CALLBACK_URL"),
        ({"callback_url": "https://hooks.example/?x=1"}, "PERDURE_TELEPHONY_CALLBACK_URL"),
        ({"ring": "601"}, "PERDURE_TELEPHONY_RING"),
        ({"connections": "0"}, "PERDURE_TELEPHONY_CONNECTIONS"),
        ({"ca_file": "/nowhere"}, "PERDURE_TELEPHONY_CA_FILE"),
        ({"api_key_sid": "SK" + "1" * 32}, "PERDURE_TELEPHONY_API_KEY_SECRET"),
        ({"auth_token": "env:NO_SUCH_VARIABLE"}, "env:NO_SUCH_VARIABLE"),
        ({"auth_token": "file:/nowhere"}, "file:/nowhere"),
        ({"auth_token": " "}, "PERDURE_TELEPHONY_AUTH_TOKEN is empty"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, object], named: str) -> None:
    told = refusal(**(WHOLE | given))
    assert named in told
    assert "hush" not in told


@pytest.mark.parametrize("missing", WHOLE)
def test_a_missing_setting_is_named(missing: str) -> None:
    told = refusal(**{name: value for name, value in WHOLE.items() if name != missing})
    assert told.startswith(f"PERDURE_TELEPHONY_{missing.upper()} is not set")


@pytest.mark.parametrize("sender", ["+4915112345678", "MG" + "0" * 32, "My Clinic", "12345"])
def test_senders_of_all_kinds_will_do(sender: str) -> None:
    assert refusal(**(WHOLE | {"sender": sender})) == ""


async def test_a_worker_with_incomplete_settings_does_not_take_work() -> None:
    with settings(), pytest.raises(InvalidSetting, match="PERDURE_TELEPHONY_ACCOUNT_SID is not set"):
        async with lifespan(Settings(database_url="postgresql://x/y")):
            pass


def test_the_newest_secret_is_used_and_a_key_comes_before_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEW_TOKEN", "new")
    with settings(**(WHOLE | {"auth_token": "env:NEW_TOKEN old"})):
        assert authorization(telephony_settings()) == _basic(f"{WHOLE['account_sid']}:new")
    secret = tmp_path / "secret"
    secret.write_text("of the key\n".replace(" ", "-"))
    key = {"api_key_sid": "SK" + "2" * 32, "api_key_secret": f"file:{secret}"}
    with settings(**(WHOLE | key)):
        assert authorization(telephony_settings()) == _basic(f"SK{'2' * 32}:of-the-key")
        secret.write_text("another")
        assert authorization(telephony_settings()) == _basic(f"SK{'2' * 32}:another")


def _basic(words: str) -> str:
    return "Basic " + b64encode(words.encode()).decode()
