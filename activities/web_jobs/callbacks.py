"""The callbacks of pages: the tokens for them, and what is on record of those of a job."""

from __future__ import annotations

import hashlib
import hmac

from activities.web_jobs.contracts import Answer, Then
from activities.web_jobs.resources import Web
from activities.web_jobs.settings import web_settings
from perdure.contracts import Key

CALLED_BACK = Answer(status=202, then=Then.CALLBACK)
"""The answer of a page that has called back: the lifecycle takes its end from the callback."""

# A token of an earlier generation does not count for this one.
_OF_JOB = """from web_job.callback c join perdure.ident i
    on i.lifecycle = 'web-job' and i.id = c.job and i.generation = c.generation where c.job = $1"""


def callback_token(key: Key) -> str:
    """The token that a page shows in its callback. Only we can make it, and it is the same for each attempt."""
    secret = web_settings().callback_secret
    assert secret is not None  # `why_not` has checked that
    return hmac.new(secret.get_secret_value().encode(), f"callback {key}".encode(), hashlib.sha256).hexdigest()


def digest_of(token: str) -> bytes:
    """The value in `web_job.callback`."""
    return hashlib.sha256(token.encode()).digest()


async def is_expected(web: Web, job: str) -> bool:
    """Whether a call of the job has named a URL for its callback."""
    return bool(await web.pool.fetchval(f"select exists (select {_OF_JOB})", job))


async def has_called_back(web: Web, job: str) -> bool:
    """Whether the page has called back. The lifecycle then has that signal, or will receive it."""
    return bool(await web.pool.fetchval(f"select exists (select {_OF_JOB} and c.called_at is not null)", job))
