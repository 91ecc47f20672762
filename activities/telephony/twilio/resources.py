"""The resources that the bodies of telephony share while a worker runs: names of hosts, and places for connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp.abc import AbstractResolver

from activities.http.names import Names
from activities.secrets import NoSecret
from activities.telephony.settings import TelephonySettings, telephony_settings
from activities.telephony.twilio.credentials import auth_tokens, authorization
from perdure import Attempt, LookupContext, Settings
from perdure.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class Telephony:
    """The `attempt.resources` of a body of telephony, or their `telephony`.

    Attributes:
        names: looks up the provider's host.
        places: one for each connection at a time. A caller waits for a free one.
    """

    names: AbstractResolver = field(default_factory=Names)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(telephony_settings().connections))


def telephony_of(given: Attempt | LookupContext) -> Telephony:
    """The resources that the worker has opened."""
    resources: Any = getattr(given.resources, "telephony", given.resources)
    assert isinstance(resources, Telephony), "App(lifespan=activities.telephony.twilio.resources.lifespan) is missing"
    return resources


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[Telephony]:
    """Open it for one worker.

    Raises:
        InvalidSetting: something is not set, without which nothing can be sent.
    """
    check_complete(telephony_settings())
    telephony = Telephony()
    try:
        yield telephony
    finally:
        await telephony.names.close()


def check_complete(config: TelephonySettings) -> None:
    """Check that everything that sending needs is there.

    Raises:
        InvalidSetting: something is missing.
    """
    for name in ("account_sid", "sender"):
        if getattr(config, name) is None:
            raise InvalidSetting(f"PERDURE_TELEPHONY_{name.upper()} is not set: see `perdure help telephony`")
    try:
        authorization(config)
        if config.callback_url is not None:
            auth_tokens(config)
    except NoSecret as error:
        raise InvalidSetting(str(error)) from None
