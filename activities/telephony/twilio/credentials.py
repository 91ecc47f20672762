"""The account of requests, and the tokens that sign callbacks, from the settings, which may name places of secrets.

Secrets are read anew each time, and stand in no table, payload, history or log.
"""

from __future__ import annotations

import base64

from pydantic import SecretStr

from activities.secrets import NoSecret, text_at
from activities.telephony.settings import TelephonySettings

_PLACES = ("env:", "file:")


def authorization(config: TelephonySettings) -> str:
    """The header `Authorization` of a request (RFC 7617).

    Raises:
        NoSecret: a secret is missing; the message names its place.
    """
    if config.api_key_secret is not None:
        user, password = config.api_key_sid, secrets(config.api_key_secret, "PERDURE_TELEPHONY_API_KEY_SECRET")[0]
    else:
        user, password = config.account_sid, auth_tokens(config)[0]
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def auth_tokens(config: TelephonySettings) -> list[str]:
    """The account's auth tokens, the newest first.

    Raises:
        NoSecret: one is missing; the message names its place.
    """
    if config.auth_token is None:
        raise NoSecret("PERDURE_TELEPHONY_AUTH_TOKEN is not set")
    return secrets(config.auth_token, "PERDURE_TELEPHONY_AUTH_TOKEN")


def secrets(given: SecretStr, variable: str) -> list[str]:
    """The secrets that a setting holds or names, separated by blanks.

    Raises:
        NoSecret: one is missing; the message names its place.
    """
    words = given.get_secret_value().split()
    found = [text_at(each).strip() if each.startswith(_PLACES) else each for each in words]
    if not found or not all(each.isascii() and each.isprintable() and each for each in found):
        raise NoSecret(f"{variable} is empty, or has characters that no secret has")
    return found
