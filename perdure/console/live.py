"""Keeps open pages true: server-sent events that say that something has changed, or that the database is away.

An event holds no data. The page then loads itself again, with all that is checked for any page.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perdure._operations.changes import Changes, change_of
from perdure._operations.reach import Reach
from perdure._text.privacy import describe
from perdure.console.guarding import Refused, who
from perdure.console.page import Page, View
from perdure.console.sources import Sources
from perdure.errors import NoSuchEntity

log: logging.Logger = logging.getLogger("perdure.console")

EVERY = 1.0
"""Seconds between two looks at what is watched."""
BEAT = 15.0
"""Seconds after which a stream sends something in any case, and checks that its person is still signed in."""
MOST, MOST_OF_ONE = 200, 20
"""Streams of one console process, and of one person."""

Watched = tuple[str, str] | Reach
"""An entity, or all that somebody may see."""


@dataclass
class _Watch:
    streams: set[asyncio.Queue[str | None]] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


@dataclass
class Live:
    """All streams; those that watch the same thing share one look at it."""

    sources: Sources
    _watches: dict[Watched, _Watch] = field(default_factory=dict)
    _of: Counter[str] = field(default_factory=Counter)

    @property
    def streams(self) -> int:
        """How many are open."""
        return self._of.total()

    @contextmanager
    def place(self, name: str) -> Iterator[None]:
        """For one stream of a person.

        Raises:
            Refused: too many are open already.
        """
        if self.streams >= MOST or self._of[name] >= MOST_OF_ONE:
            raise Refused(503, "Too many open pages", "Load this page again to see what has changed.")
        self._of[name] += 1
        try:
            yield
        finally:
            self._of -= Counter([name])

    async def events(self, watched: Watched, still: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """The lines of one stream, until its person is signed out or the console stops."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=16)
        watch = self._watches.setdefault(watched, _Watch())
        watch.streams.add(queue)
        if watch.task is None:
            watch.task = asyncio.create_task(self._look(watched, watch))
        try:
            checked = time.monotonic()
            yield "retry: 3000\nevent: open\ndata:\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), BEAT)
                except TimeoutError:
                    event = "beat"
                if event is not None and time.monotonic() - checked >= BEAT:  # also where something always changes
                    checked = time.monotonic()
                    event = event if await still() else "signed-out"
                if event is None:
                    return
                yield f"event: {event}\ndata:\n\n"
                if event == "signed-out":
                    return
        finally:
            watch.streams.discard(queue)
            if not watch.streams and watch.task is not None:
                watch.task.cancel()
                self._watches.pop(watched, None)

    async def _look(self, watched: Watched, watch: _Watch) -> None:
        changed = Changes(watched) if isinstance(watched, Reach) else change_of(*watched)
        away = False
        while True:
            try:
                async with self.sources.reading() as connection:
                    something = await changed(connection)
                if away or something:
                    _push(watch, "changed")
                away = False
            except Exception as error:  # whatever it is, the pages must not look as if they were true
                if not away:
                    _push(watch, "away")
                    log.warning("open pages can't be kept true: %s", describe(error))
                away = True
            await asyncio.sleep(EVERY)

    async def close(self) -> None:
        """End all streams."""
        for watch in list(self._watches.values()):
            if watch.task is not None:
                watch.task.cancel()
            _push(watch, None)


def _push(watch: _Watch, event: str | None) -> None:
    for queue in watch.streams:
        if queue.full():  # a browser that reads nothing: it needs the newest event alone
            queue.get_nowait()
        queue.put_nowait(event)


async def show(view: View) -> Response:
    """The stream of a page: of one entity, or of everything that the person may see."""
    live = view.console.live
    view.until_sent.enter_context(live.place(view.person.name))
    lifecycle, entity_id = view.query.get("lifecycle"), view.query.get("id")
    watched: Watched = view.reach()
    if lifecycle is not None and entity_id is not None:
        await _check(view, lifecycle, entity_id)
        watched = lifecycle, entity_id

    async def still(request: Request = view.request) -> bool:
        person = await who(view.console, request)
        return person is not None and view.page.admits(person)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(live.events(watched, still), media_type="text/event-stream", headers=headers)


async def _check(view: View, lifecycle: str, entity_id: str) -> None:
    client = (await view.sources.session(view.person.name)).client
    try:
        standing = await client.status(lifecycle, entity_id)
    except NoSuchEntity:
        view.see(lifecycle, entity_id, None)
        raise
    view.see(lifecycle, entity_id, standing.tenant)


PAGES = [Page("live", "/live", show, lasts=True)]
