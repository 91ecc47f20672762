"""Which pages web jobs may call: `PERDURE_WEB_*`."""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from activities.environment import is_place, listed, read_settings, usable_certificates
from activities.http.exchange import Bounds

_PREFIX = "PERDURE_WEB_"


class WebSettings(BaseSettings):
    """Which pages may be called, and how much of an answer is read. Empty lists mean: none.

    Attributes:
        origins: that may be called, each `scheme://host[:port]`, separated by commas; `*` = any public one.
        networks: of private addresses that may be connected to, as in `10.1.0.0/16`, separated by commas.
        ca_file: certificates to trust instead of the system's, PEM.
        most_response: bytes of an answer that are read.
        callback_url: where the receiver of callbacks can be reached by the pages.
        callback_secret: the key of callback tokens; the same in each worker. At least 16 characters.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, hide_input_in_errors=True)

    origins: Annotated[tuple[str, ...], NoDecode] = ()
    networks: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = ()
    ca_file: Path | None = None
    most_response: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    callback_url: str | None = None
    callback_secret: SecretStr | None = None

    @property
    def bounds(self) -> Bounds:
        """The bounds of a request."""
        return Bounds(self.networks, self.most_response, self.ca_file)

    @field_validator("origins", mode="before")
    @classmethod
    def _list(cls, given: Any) -> Any:
        return listed(given)

    @field_validator("networks", mode="before")
    @classmethod
    def _networks(cls, given: Any) -> Any:
        try:
            return [ip_network(each) for each in listed(given)]
        except ValueError as error:
            raise ValueError(f"{error}: write networks as 10.1.0.0/16, separated by commas") from None

    @field_validator("origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for each in origins:
            if each != "*" and not is_place(each, path=False):
                raise ValueError(f"{each!r} is no origin: write it as https://host or http://host:8080, without a path")
        return origins

    @field_validator("ca_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return usable_certificates(path)

    @field_validator("callback_url")
    @classmethod
    def _place(cls, url: str | None) -> str | None:
        if url is not None and not is_place(url, path=True):
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
    """The settings in the environment, read once; `web_settings.cache_clear()` drops them.

    Raises:
        InvalidSetting: with one line that names the variable.
    """
    return read_settings(WebSettings, _PREFIX)
