"""Makes an exchange for an attempt, and evaluates an exchange that did not end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from activities.http.exchange import Broken, Exchange, HttpRequest, NotAllowed, Reply, spanned
from activities.web_jobs.origins import forbidden
from activities.web_jobs.outcomes import OURS_PAUSE
from activities.web_jobs.resources import web_of
from activities.web_jobs.settings import web_settings
from perdure import Attempt, InDoubt, NotDone, Refused


@contextmanager
def without_doubt(what: str) -> Iterator[None]:
    """Let what only reads, or repeats without harm, end in no doubt, wherever it breaks off or is stopped.

    Args:
        what: it is, for the reason.

    Raises:
        NotDone: in place of any exception that is no definite end.
    """
    try:
        yield
    except (NotDone, Refused):
        raise
    except (Exception, asyncio.CancelledError) as error:
        raise NotDone(f"{what}: {_kind(error)}") from None


async def ask(request: HttpRequest, attempt: Attempt, *, seconds: float | None = None, harmless: bool = False) -> Reply:
    """Make it.

    Args:
        seconds: that it may take, if not all that the attempt has left.
        harmless: whether the request only reads, so that it can be repeated after a broken connection.

    Raises:
        NotDone: nothing was sent, as where it would go to an address that may not be connected to; or it was harmless.
        InDoubt: it broke off after the first byte had left.
    """
    if why := forbidden(request.url):
        raise NotDone(why)
    exchange = Exchange(
        request,
        web_of(attempt).names,
        bounds=web_settings().bounds,
        seconds=attempt.remaining if seconds is None else min(seconds, attempt.remaining),
        before_first_byte=attempt.before_first_byte,
    )
    try:
        return await spanned(exchange, request)
    except NotAllowed as error:
        why = f"{error} is no public address, and PERDURE_WEB_NETWORKS does not list it"
        raise NotDone(why, retry_after=OURS_PAUSE) from None
    except Broken as error:
        raise (NotDone if harmless or not error.left else InDoubt)(error.why) from None
    except asyncio.CancelledError:
        # The caller ends the attempt in this way at its deadline, and uses this outcome.
        if exchange.left:
            raise
        raise NotDone(f"{exchange.stage}: the attempt was over") from None


def _kind(error: BaseException) -> str:
    if isinstance(error, (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
        return f"the database does not answer ({type(error).__name__})"
    return "the attempt was over" if isinstance(error, asyncio.CancelledError) else type(error).__name__
