"""The key of a job for its page: the key of the call, also in requests for the progress."""

from __future__ import annotations

from activities.web_jobs.resources import Web
from perdure.contracts import Key

_KEY = """select key from perdure.effect where lifecycle = 'web-job' and id = $1 and status = 'done'
    and effect in ('call-page', 'call-page-inline') order by generation desc, first_at desc limit 1"""


async def key_of_call(web: Web, job: str, otherwise: Key) -> Key:
    """The key of the call that the page has answered; `otherwise` where that is not on record any more."""
    found = await web.pool.fetchval(_KEY, job)
    return otherwise if found is None else Key(found)
