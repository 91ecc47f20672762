"""The resources that the bodies of web jobs share while a worker runs: connections to the app's database, names,
places."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp.abc import AbstractResolver

from activities.http.names import Names
from activities.web_jobs.turnstile import Turnstile
from perdure import Attempt, LookupContext, Settings
from perdure.database import Pool, open_pool


@dataclass(frozen=True, slots=True)
class Web:
    """The `attempt.resources` of a body of a web job.

    Attributes:
        pool: connections to the app's database, apart from perdure's own.
        names: looks up the hosts of pages.
        turnstile: how many calls of each type are under way.
    """

    pool: Pool
    names: AbstractResolver = field(default_factory=Names)
    turnstile: Turnstile = field(default_factory=Turnstile)


def web_of(given: Attempt | LookupContext) -> Web:
    """The resources that the worker has opened."""
    resources: Any = given.resources
    assert isinstance(resources, Web), "App(lifespan=activities.web_jobs.resources.lifespan) is missing"
    return resources


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[Web]:
    """Open it for one worker."""
    async with open_pool(config, "perdure web jobs", command_timeout=10) as pool:
        web = Web(pool)
        try:
            yield web
        finally:
            await web.names.close()
