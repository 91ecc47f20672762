"""The provider of messages and calls, the account, and the address for reports: `PERDURE_TELEPHONY_*`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.environment import is_loopback, is_place, read_settings, usable_certificates

_PREFIX = "PERDURE_TELEPHONY_"
_SENDER = re.compile(
    r"\+[1-9][0-9]{1,14}|[0-9]{3,6}|MG[0-9a-f]{32}|(?=[0-9 +&_-]*[A-Za-z])[A-Za-z0-9 +&_-]{1,11}", re.ASCII
)


class TelephonySettings(BaseSettings):
    """The provider of messages and calls, the account, and the address for reports.

    Attributes:
        api_url: origin of the provider's API.
        account_sid: of the account, `AC...`.
        auth_token: of the account: signs callbacks, and requests where there is no API key. Also `env:NAME` or
            `file:/path`, read anew each time; several separated by blanks, the newest first, while it is changed.
        api_key_sid, api_key_secret: of an API key, which makes the requests in place of the auth token.
        sender: of text messages: a number (E.164), an alphanumeric sender, or `MG...`, a messaging service.
        caller: of calls: a number (E.164); by default the sender's, if that is a number.
        callback_url: where status callbacks are received, as the provider sees it; none are asked for without.
        ring: seconds that a telephone rings before it counts as not answered.
        connections: to the provider at a time, in each worker.
        ca_file: certificates to trust instead of the system's, PEM.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, hide_input_in_errors=True)

    api_url: str = "https://api.twilio.com"
    account_sid: str | None = Field(default=None, pattern=r"^AC[0-9a-f]{32}$")
    auth_token: SecretStr | None = None
    api_key_sid: str | None = Field(default=None, pattern=r"^SK[0-9a-f]{32}$")
    api_key_secret: SecretStr | None = None
    sender: str | None = None
    caller: str | None = Field(default=None, pattern=r"^\+[1-9][0-9]{1,14}$")
    callback_url: str | None = None
    ring: int = Field(default=30, ge=5, le=600)
    connections: int = Field(default=20, ge=1, le=1000)
    ca_file: Path | None = None

    @field_validator("sender")
    @classmethod
    def _sender(cls, sender: str | None) -> str | None:
        if sender is not None and not _SENDER.fullmatch(sender):
            raise ValueError("is no sender: give a number as +15005550006, MG... of a messaging service, or a name")
        return sender

    @field_validator("api_url")
    @classmethod
    def _origin(cls, url: str) -> str:
        if not is_place(url, path=False):
            raise ValueError("is no origin: write it as https://api.twilio.com, without a path")
        return url.rstrip("/")

    @field_validator("callback_url")
    @classmethod
    def _place(cls, url: str | None) -> str | None:
        if url is not None and not is_place(url, path=True):
            raise ValueError("is no URL that the provider can call: write it as https://host/path")
        return url and url.rstrip("/")

    @field_validator("ca_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return usable_certificates(path)

    @model_validator(mode="after")
    def _fits_together(self) -> TelephonySettings:
        if (self.api_key_sid is None) != (self.api_key_secret is None):
            raise ValueError("give PERDURE_TELEPHONY_API_KEY_SID and PERDURE_TELEPHONY_API_KEY_SECRET, or neither")
        # The password and the numbers of patients would go over the network for all to read.
        if self.api_url.startswith("http:") and not is_loopback(urlsplit(self.api_url).hostname or ""):
            raise ValueError("PERDURE_TELEPHONY_API_URL has to be https, but for one on this machine")
        return self


@cache
def telephony_settings() -> TelephonySettings:
    """The settings in the environment, read once; `telephony_settings.cache_clear()` drops them.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    return read_settings(TelephonySettings, _PREFIX)
