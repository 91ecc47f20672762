"""`follow` tries a follower of the feed: it crashes it at each place, puts its database back, and drops a month."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from perdure.client import Client
from perdure.client.records import Event
from perdure.errors import InvalidPosition, PerdureError

Effect = tuple[str, str, int]
"""Lifecycle, id and version of an event that took effect."""
_MONTH = "2020-01-01"
_OLD = """
    insert into perdure.transition (lifecycle, id, generation, version, state, at)
    select 'followed', 'old', 0, version, 'state', '2020-01-15'::timestamptz + make_interval(secs => version)
    from generate_series(0, 1) version
"""
_NEW = """
    insert into perdure.transition (lifecycle, id, generation, version, state)
    select 'followed', $1, 0, version, 'state ' || version from generate_series(0, 2) version
"""


class FollowerFailed(PerdureError, AssertionError):
    """A follower missed an event, or one took effect twice or out of order; the message names trial and event."""


class Follower(Protocol):
    """What an author gives: one follower, with what it keeps outside of the database."""

    async def run(self, feed: Feed) -> None:
        """Handle all events that there are, as after the start of a new process."""

    async def effects(self, feed: Feed) -> Sequence[Effect]:
        """What took effect, in order."""


@dataclass(slots=True)
class Feed:
    """The feed of a trial's database. It ends at the newest event.

    Attributes:
        database_url: for a follower that keeps its position in the database.
    """

    database_url: str
    _client: Client
    _crash_at: int
    touches: int = 0

    async def __call__(self, after: str | None = None) -> AsyncIterator[Event]:
        """Events after a position."""
        async for event in self._client.feed(after, wait=False):
            yield _Watched(event, self)  # type: ignore[misc]

    def touch(self) -> None:
        """The follower comes by a place at which it may be crashed."""
        self.touches += 1
        if self.touches == self._crash_at:
            raise _CrashedError


class _CrashedError(BaseException):
    """The process of the follower is gone: nothing that it catches may hold it up."""


class _Watched:
    """An event; each look at it is a place."""

    def __init__(self, event: Event, feed: Feed) -> None:
        self._event, self._feed = event, feed

    def __getattr__(self, name: str) -> Any:
        self._feed.touch()
        return getattr(self._event, name)


async def follow(make: Callable[[], Follower], template: str) -> int:
    """Try a follower, and return in how many trials.

    It is run to the end, and run again; crashed whenever it looks at an event, which is before, between and after
    handling it and keeping its position; its database is put back to an earlier time; a month that it has not read is
    dropped. Each event has to take effect once, and those of each entity in order, or `run` raises `InvalidPosition`.

    Args:
        make: a new follower, which has handled nothing yet, for each trial.
        template: URL of a PostgreSQL database with the schema `perdure`, and the follower's own tables if it has any.
            It is copied for each trial, by a role that may create databases; nobody else may be connected to it.

    Raises:
        FollowerFailed: it missed something, or handled it twice or out of order.

    Example:
        await follow(CacheFollower, "postgresql://localhost/app_template")
    """
    touches = await _crashed(make, template, 0)
    for place in range(1, touches + 1):
        await _crashed(make, template, place)
    await _put_back(make, template)
    await _month_dropped(make, template)
    return touches + 3


async def _crashed(make: Callable[[], Follower], template: str, place: int) -> int:
    async with _copy_of(template) as url:
        await _write(url, "a", "b")
        follower = make()
        async with _feed(url, place) as feed:
            try:
                await follower.run(feed)
            except _CrashedError:
                await follower.run(feed)
            touches = feed.touches
            await follower.run(feed)
            await _write(url, "c")
            await follower.run(feed)
            trial = f"crashed at look {place} at an event" if place else "undisturbed"
            _judge(trial, await _events(url), await follower.effects(feed))
        return touches


async def _put_back(make: Callable[[], Follower], template: str) -> None:
    async with _copy_of(template) as url:
        await _write(url, "a")
        follower = make()
        await _run(follower, url)
        async with _copy_of(url) as earlier:
            await _write(url, "lost")
            await _run(follower, url)
            await _write(earlier, "b")
            effects = await _run_unless_refused(follower, earlier)
            if effects is not None:
                _judge("its database was put back to an earlier time", await _events(earlier), effects)


async def _month_dropped(make: Callable[[], Follower], template: str) -> None:
    async with _copy_of(template) as url:
        await _write(url, "a")
        follower = make()
        await _run(follower, url)
        async with _connected(url) as db:
            await db.execute(f"select perdure.make_month('{_MONTH}')")
            await db.execute(_OLD)
            before = await _events(url)
            await db.execute(f"select perdure.note_dropping('{_MONTH}')")
            await db.execute("drop table perdure.transition_2020_01")
        await _write(url, "b")
        effects = await _run_unless_refused(follower, url)
        if effects is not None:
            after = [event for event in await _events(url) if event not in before]
            _judge("a month was dropped that it had not read", before + after, effects)


async def _run(follower: Follower, url: str) -> Sequence[Effect]:
    async with _feed(url) as feed:
        await follower.run(feed)
        return await follower.effects(feed)


async def _run_unless_refused(follower: Follower, url: str) -> Sequence[Effect] | None:
    try:
        return await _run(follower, url)
    except InvalidPosition:
        return None


@asynccontextmanager
async def _feed(url: str, crash_at: int = 0) -> AsyncIterator[Feed]:
    pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
    try:
        yield Feed(url, Client(pool), crash_at)
    finally:
        await pool.close()


def _judge(trial: str, events: Sequence[Effect], effects: Sequence[Effect]) -> None:
    last: dict[tuple[str, str], int] = {}
    for lifecycle, id, version in effects:
        what = f"version {version} of {lifecycle}/{id}"
        before = last.get((lifecycle, id), -1)
        if (lifecycle, id, version) not in events:
            raise FollowerFailed(f"{trial}: {what} took effect, and is not on record")
        if version <= before:
            how = "took effect twice" if version == before else f"took effect after version {before}"
            raise FollowerFailed(f"{trial}: {what} {how}")
        last[lifecycle, id] = version
    for missed in [event for event in events if event not in effects]:
        raise FollowerFailed(f"{trial}: version {missed[2]} of {missed[0]}/{missed[1]} was missed")


async def _write(url: str, *ids: str) -> None:
    async with _connected(url) as db:
        for each in ids:
            await db.execute(_NEW, each)


async def _events(url: str) -> list[Effect]:
    async with _connected(url) as db:
        rows = await db.fetch("select lifecycle, id, version from perdure.transition where seq > 0 order by seq")
    return [(row["lifecycle"], row["id"], row["version"]) for row in rows]


@asynccontextmanager
async def _copy_of(url: str) -> AsyncIterator[str]:
    parts = urlsplit(url)
    name = f"follow_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
    try:
        await admin.execute(f'create database {name} template "{parts.path.lstrip("/")}"')
        try:
            yield urlunsplit(parts._replace(path=f"/{name}"))
        finally:
            await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    db = await asyncpg.connect(url)
    try:
        yield db
    finally:
        await db.close()
