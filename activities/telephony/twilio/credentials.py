"""The account of requests, and the tokens that sign callbacks, from the settings, which may name places of secrets.

Secrets are read anew each time, and stand in no table, payload, history or log.
"""

from __future__ import annotations

import base64

from pydantic import SecretStr

from activities.secrets import NoSecret, text_at
from activities.telephony.settings import TelephonySettings

_PLACES = ("env:", "file:")
_AUTH_TOKEN = "PERDURE_TELEPHONY_AUTH_TOKEN"


def authorization(config: TelephonySettings) -> str:
    """The header `Authorization` of a request (RFC 7617).

    Raises:
        NoSecret: a secret is missing; the message names its place.
    """
    if config.api_key_secret is not None:
        user, password = config.api_key_sid, _first(config.api_key_secret, "PERDURE_TELEPHONY_API_KEY_SECRET")
    else:
        user, password = config.account_sid, _first(config.auth_token, _AUTH_TOKEN)
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def auth_tokens(config: TelephonySettings) -> list[str]:
    """The account's auth tokens, the newest first.

    Raises:
        NoSecret: one is missing; the message names its place.
    """
    return [_secret(each, _AUTH_TOKEN) for each in _words(config.auth_token, _AUTH_TOKEN)]


def readable_auth_tokens(config: TelephonySettings) -> tuple[list[str], NoSecret | None]:
    """The auth tokens that can be read now, and why another one cannot; None = all can."""
    tokens, missing = [], None
    for each in _words(config.auth_token, _AUTH_TOKEN):
        try:
            tokens.append(_secret(each, _AUTH_TOKEN))
        except NoSecret as error:
            missing = error
    return tokens, missing


def _first(given: SecretStr | None, variable: str) -> str:
    return _secret(_words(given, variable)[0], variable)


def _words(given: SecretStr | None, variable: str) -> list[str]:
    """The secrets that a setting holds or names, separated by blanks. Raises NoSecret if it is not set."""
    if given is None:
        raise NoSecret(f"{variable} is not set")
    return given.get_secret_value().split() or [""]


def _secret(word: str, variable: str) -> str:
    """The secret that is `word`, or is at that place. Raises NoSecret if it can't be read."""
    secret = text_at(word).strip() if word.startswith(_PLACES) else word
    if not (secret and secret.isascii() and secret.isprintable()):
        raise NoSecret(f"{variable} is empty, or has characters that no secret has")
    return secret
