"""Settings of the outside systems, from the environment: `PERDURE_MAIL_HOST`, `PERDURE_WEB_ORIGINS`, and so on.

A worker reads them once, when it imports the bodies: with a wrong one it does not start, and says which in
    one line.
"""

from __future__ import annotations

import re
import shlex
import socket
import ssl
from enum import StrEnum
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from activities.contracts.addresses import ascii_domain
from perdure.errors import InvalidSetting

_PREFIX = "PERDURE_MAIL_"
_WEB_PREFIX = "PERDURE_WEB_"
_TELEPHONY_PREFIX = "PERDURE_TELEPHONY_"
_SENDER = re.compile(
    r"\+[1-9][0-9]{1,14}|[0-9]{3,6}|MG[0-9a-f]{32}|(?=[0-9 +&_-]*[A-Za-z])[A-Za-z0-9 +&_-]{1,11}", re.ASCII
)


class StartTls(StrEnum):
    """When a plain connection is turned into an encrypted one (RFC 3207)."""

    NEVER = "never"
    OFFERED = "offered"
    """If the server offers it, whoever it is: its certificate is not checked (RFC 7435)."""
    REQUIRED = "required"
    """Always, and only with a valid certificate."""


class MailSettings(BaseSettings):
    """How to reach the mail server, and where it logs.

    Attributes:
        host, port: where it listens.
        username, password: for SMTP AUTH; both or none.
        starttls: when to encrypt a plain connection.
        tls: encrypt from the first byte on (RFC 8314, usually port 465).
        ca_file: certificates to trust instead of the system's, PEM.
        helo_name: what EHLO says; by default the host's full name, else an address literal.
        message_id_domain: right side of Message-IDs; by default the sender's domain.
        sendmail: the program that mail is piped to, with its arguments, as in a shell; none is run. `-f` and the
            sender's address are added.
        postqueue: the program, with its arguments, that lists Postfix's queue as JSON.
        log: the mail log of the server at `host`, or of this machine's Postfix; rotated ones are found beside it.
        log_zone: zone of log lines whose time stamps have none (RFC 3164), e.g. `Europe/Berlin`; by default
            this machine's.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, hide_input_in_errors=True)

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=25, ge=1, le=65_535)
    username: str | None = None
    password: SecretStr | None = None
    starttls: StartTls = StartTls.OFFERED
    tls: bool = False
    ca_file: Path | None = None
    helo_name: str = Field(default_factory=lambda: _own_name(), pattern=r"^[!-~]+$")
    message_id_domain: str | None = None
    sendmail: str = "/usr/sbin/sendmail -i -t"
    postqueue: str = "/usr/sbin/postqueue -j"
    log: Path = Path("/var/log/mail.log")
    log_zone: str | None = None

    @field_validator("message_id_domain")
    @classmethod
    def _domain(cls, domain: str | None) -> str | None:
        return None if domain is None else ascii_domain(domain)

    @field_validator("sendmail", "postqueue")
    @classmethod
    def _command(cls, command: str) -> str:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"can't be taken apart into words: {error}") from None
        if not words:
            raise ValueError("names no program: give one such as /usr/sbin/sendmail -i -t")
        return command

    @field_validator("log_zone")
    @classmethod
    def _zone(cls, name: str | None) -> str | None:
        try:
            return name and ZoneInfo(name).key
        except (OSError, LookupError, ValueError):
            raise ValueError("no such time zone: give a name such as Europe/Berlin") from None

    @field_validator("ca_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return _certificates(path)

    @model_validator(mode="after")
    def _fits_together(self) -> MailSettings:
        if (self.username is None) != (self.password is None):
            raise ValueError("give PERDURE_MAIL_USERNAME and PERDURE_MAIL_PASSWORD, or neither")
        if self.tls and self.starttls is StartTls.REQUIRED:
            raise ValueError("PERDURE_MAIL_TLS and PERDURE_MAIL_STARTTLS=required: choose one")
        # "offered" would hand the password to whoever answers without offering, or with any certificate.
        proven = self.tls or self.starttls is StartTls.REQUIRED
        if self.password is not None and not proven and not _is_loopback(self.host):
            raise ValueError("a password needs a proven connection: set PERDURE_MAIL_STARTTLS=required")
        return self

    @property
    def checks_certificate(self) -> bool:
        """Whether the server has to prove who it is."""
        return self.tls or self.starttls is StartTls.REQUIRED


@cache
def mail_settings() -> MailSettings:
    """The settings in the environment, read once; `mail_settings.cache_clear()` forgets them.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    return _read(MailSettings, _PREFIX)


class WebSettings(BaseSettings):
    """Which pages may be called, and how much of an answer is read. Empty lists mean: none.

    Attributes:
        origins: that may be called, each `scheme://host[:port]`, separated by commas; `*` = any public one.
        networks: of private addresses that may be connected to, as in `10.1.0.0/16`, separated by commas.
        ca_file: certificates to trust instead of the system's, PEM.
        most_response: bytes of an answer that are read.
        callback_url: where the receiver of callbacks can be reached by the pages.
        callback_secret: what callback tokens are made of; the same in each worker. At least 16 characters.
    """

    model_config = SettingsConfigDict(env_prefix=_WEB_PREFIX, frozen=True, hide_input_in_errors=True)

    origins: Annotated[tuple[str, ...], NoDecode] = ()
    networks: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = ()
    ca_file: Path | None = None
    most_response: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    callback_url: str | None = None
    callback_secret: SecretStr | None = None

    @field_validator("origins", mode="before")
    @classmethod
    def _list(cls, given: Any) -> Any:
        return _listed(given)

    @field_validator("networks", mode="before")
    @classmethod
    def _networks(cls, given: Any) -> Any:
        try:
            return [ip_network(each) for each in _listed(given)]
        except ValueError as error:
            raise ValueError(f"{error}: write networks as 10.1.0.0/16, separated by commas") from None

    @field_validator("origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for each in origins:
            if each != "*" and not _is_place(each, path=False):
                raise ValueError(f"{each!r} is no origin: write it as https://host or http://host:8080, without a path")
        return origins

    @field_validator("ca_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return _certificates(path)

    @field_validator("callback_url")
    @classmethod
    def _place(cls, url: str | None) -> str | None:
        if url is not None and not _is_place(url, path=True):
            raise ValueError("is no URL that pages can call: write it as https://host/path")
        return url and url.rstrip("/")

    @field_validator("callback_secret")
    @classmethod
    def _long(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(secret.get_secret_value()) < 16:
            raise ValueError("is shorter than 16 characters: make one by openssl rand -base64 32")
        return secret


@cache
def web_settings() -> WebSettings:
    """The settings in the environment, read once; `web_settings.cache_clear()` forgets them.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    return _read(WebSettings, _WEB_PREFIX)


class TelephonySettings(BaseSettings):
    """With whom messages and calls are placed, as whom, and where the provider reports.

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

    model_config = SettingsConfigDict(env_prefix=_TELEPHONY_PREFIX, frozen=True, hide_input_in_errors=True)

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
        if not _is_place(url, path=False):
            raise ValueError("is no origin: write it as https://api.twilio.com, without a path")
        return url.rstrip("/")

    @field_validator("callback_url")
    @classmethod
    def _place(cls, url: str | None) -> str | None:
        if url is not None and not _is_place(url, path=True):
            raise ValueError("is no URL that the provider can call: write it as https://host/path")
        return url and url.rstrip("/")

    @field_validator("ca_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return _certificates(path)

    @model_validator(mode="after")
    def _fits_together(self) -> TelephonySettings:
        if (self.api_key_sid is None) != (self.api_key_secret is None):
            raise ValueError("give PERDURE_TELEPHONY_API_KEY_SID and PERDURE_TELEPHONY_API_KEY_SECRET, or neither")
        # The password and the numbers of patients would go over the network for all to read.
        if self.api_url.startswith("http:") and not _is_loopback(urlsplit(self.api_url).hostname or ""):
            raise ValueError("PERDURE_TELEPHONY_API_URL has to be https, but for one on this machine")
        return self


@cache
def telephony_settings() -> TelephonySettings:
    """The settings in the environment, read once; `telephony_settings.cache_clear()` forgets them.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    return _read(TelephonySettings, _TELEPHONY_PREFIX)


_Settings = TypeVar("_Settings", bound=BaseSettings)


def _read(kind: type[_Settings], prefix: str) -> _Settings:
    try:
        return kind()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        variable = prefix + str(first["loc"][0]).upper() + ": " if first["loc"] else ""
        raise InvalidSetting(variable + first["msg"].removeprefix("Value error, ")) from None


def _certificates(path: Path | None) -> Path | None:
    try:
        if path is not None:
            ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ValueError(f"can't be used as certificates: {error.strerror}") from None
    return path


def _listed(given: Any) -> Any:
    return [each.strip() for each in given.split(",") if each.strip()] if isinstance(given, str) else given


def _is_place(url: str, *, path: bool) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.scheme in ("http", "https") and (parts.port or 1) > 0
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and not parts.query and not parts.fragment and "@" not in parts.netloc
    return named and plain and (path or parts.path in ("", "/"))


def _own_name() -> str:
    # Not `getfqdn`: that asks the DNS, which may hang. RFC 5321, 4.1.4 allows a literal where there is no
    # full name.
    name = socket.gethostname()
    return name if "." in name else "[127.0.0.1]"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
