"""How to reach the mail server, and where it logs: `PERDURE_MAIL_*`."""

from __future__ import annotations

import shlex
import socket
from enum import StrEnum
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.environment import is_loopback, read_settings, usable_certificates
from activities.mail.contracts.addresses import ascii_domain

_PREFIX = "PERDURE_MAIL_"


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
        helo_name: the name in EHLO; by default the host's full name, else an address literal.
        secret: the key of Message-IDs; several separated by blanks during a change, the current one first.
            The same in each worker. At least 32 characters each.
        message_id_domain: right side of Message-IDs; by default the sender's domain.
        sendmail: the program that mail is piped to, with its arguments, as in a shell; none is run. `-f` and the
            sender's address are added.
        postqueue: the program, with its arguments, that lists Postfix's queue as JSON.
        log: the mail log of the server at `host`, or of this machine's Postfix; rotated ones are found beside it.
            Without it, a look-up of mail for a `host` that is not this machine has no answer.
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
    secret: SecretStr | None = None
    message_id_domain: str | None = None
    sendmail: str = "/usr/sbin/sendmail -i -t"
    postqueue: str = "/usr/sbin/postqueue -j"
    log: Path = Path("/var/log/mail.log")
    log_zone: str | None = None

    @field_validator("secret")
    @classmethod
    def _long(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and any(len(each) < 32 for each in secret.get_secret_value().split()):
            raise ValueError("is shorter than 32 characters: make one by openssl rand -base64 32")
        return secret

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
        return usable_certificates(path)

    @model_validator(mode="after")
    def _fits_together(self) -> MailSettings:
        if (self.username is None) != (self.password is None):
            raise ValueError("give PERDURE_MAIL_USERNAME and PERDURE_MAIL_PASSWORD, or neither")
        if self.tls and self.starttls is StartTls.REQUIRED:
            raise ValueError("PERDURE_MAIL_TLS and PERDURE_MAIL_STARTTLS=required: choose one")
        # "offered" would hand the password to whoever answers without offering, or with any certificate.
        proven = self.tls or self.starttls is StartTls.REQUIRED
        if self.password is not None and not proven and not is_loopback(self.host):
            raise ValueError("a password needs a proven connection: set PERDURE_MAIL_STARTTLS=required")
        return self

    @property
    def secrets(self) -> list[str]:
        """The secrets for Message-IDs, the present one first."""
        return [] if self.secret is None else self.secret.get_secret_value().split()

    @property
    def logs_here(self) -> bool:
        """Whether `log` is that of the server at `host`: the log of this machine's Postfix has no mail of another
        server, so a miss in it would prove nothing."""
        return "log" in self.model_fields_set or is_loopback(self.host)

    @property
    def checks_certificate(self) -> bool:
        """Whether the certificate of the server is verified."""
        return self.tls or self.starttls is StartTls.REQUIRED


@cache
def mail_settings() -> MailSettings:
    """The settings in the environment, read once; `mail_settings.cache_clear()` drops them.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    return read_settings(MailSettings, _PREFIX)


def _own_name() -> str:
    # Not `getfqdn`: that queries the DNS, which may hang. RFC 5321, 4.1.4 allows a literal where there is no
    # full name.
    name = socket.gethostname()
    return name if "." in name else "[127.0.0.1]"
