"""What the tests of sending mail stand on: a server, attempts with a given time, one mail."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activities.mail.contracts.mail import Mail
from activities.mail.settings import mail_settings
from infra.mail.server import MailServer
from perdure import Attempt, Entity, LookupContext
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from tests.mail_secret import MAIL_SECRET

LETTER = Mail(sender="news@app.example", recipient="jo.doe@reader.example", subject="A new comment", body="Hello\n")
_numbers = itertools.count(1)


def attempt(seconds: float = 60.0, key: Key | None = None) -> Attempt:
    """An attempt that has so many seconds left, of an effect of its own unless `key` is given."""
    own = Key.of(Entity("comment", str(next(_numbers))), "send-mail")
    return Attempt(key or own, 1, datetime.now(UTC), boot_clock() + seconds)


def question(about: Attempt) -> LookupContext:
    """The question whether the effect of `about` happened."""
    return LookupContext(about.key, about.first_at)


@contextmanager
def settings(**given: object) -> Iterator[None]:
    """Let the settings be exactly these and the secret, e.g. `port=2525` for PERDURE_MAIL_PORT."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PERDURE_MAIL_")}
    given = {"secret": MAIL_SECRET} | given
    _replace({f"PERDURE_MAIL_{name.upper()}": str(value) for name, value in given.items()})
    try:
        yield
    finally:
        _replace(before)


@asynccontextmanager
async def mail_server(
    folder: Path, *, client: dict[str, object] | None = None, **options: Any
) -> AsyncIterator[MailServer]:
    """A server with its mail and log in `folder`, and settings that lead to it; `client` adds to these."""
    async with MailServer(folder / "maildir", folder / "mail.log", **options) as server:
        with settings(port=server.port, log=server.log, **(client or {})):
            yield server


def _replace(variables: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("PERDURE_MAIL_")]:
        del os.environ[name]
    os.environ.update(variables)
    mail_settings.cache_clear()
