"""An open page is told that something has changed, that the database is away, and that its person is signed out; the
stream itself holds no data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from perdure.console import live
from tests.deadline import in_time, until
from tests.integration.console.browsing import Browser, open_console
from tests.world import World


class Stream:
    """The events of a stream, in order."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.seen: list[str] = []

    async def until(self, event: str, times: int = 1) -> None:
        """Wait until an event is the last one, and was there so often."""

        async def read() -> None:
            async for line in self._lines:
                if line.startswith("event: "):
                    self.seen.append(line.removeprefix("event: "))
                else:
                    assert line in ("", "data:", "retry: 3000"), "no data"
                if self.seen[-1:] == [event] and self.seen.count(event) >= times:
                    return
            raise AssertionError(f"the stream ended before {event}: {self.seen}")

        await in_time(read())


@asynccontextmanager
async def stream(browser: Browser, path: str) -> AsyncIterator[Stream]:
    """A stream that is open."""
    async with browser.http.stream("GET", path) as answer:
        assert answer.status_code == 200
        yield Stream(answer)


async def test_a_page_is_told_what_changed_and_that_the_database_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY", 0.05)
    monkeypatch.setattr(live, "BEAT", 0.2)
    await world.db.execute("select perdure.start('order', 'a', '{}', tenant => 'acme')")
    async with open_console(world) as site:
        ann, all_of_it = site.browser("ann", "look@acme,look:parcel"), site.browser("bob")
        async with (
            stream(all_of_it, "/live") as everything,
            stream(ann, "/live") as hers,
            stream(ann, "/live?lifecycle=order&id=a") as one,
        ):
            for each in (everything, hers, one):
                await each.until("beat")
            await world.db.execute("select perdure.start('order', 'b', '{}', tenant => 'other')")
            await everything.until("changed")
            await hers.until("beat")
            assert "changed" not in one.seen + hers.seen, "nobody is told of what others have"
            await world.db.execute("select perdure.note('order', 'a', 'ann', 'seen')")
            for each in (one, hers):
                await each.until("changed")
            await world.db.execute("select perdure.start('parcel', 'c', '{}')")
            await hers.until("changed", 2)
            await asyncio.to_thread(world.postgres.stop)
            try:
                await everything.until("away")
                await hers.until("away")
                assert hers.seen.count("changed") == 2
            finally:
                await world.servers_are_back()
            await everything.until("changed")
        assert (await site.browser("eve", "look@evil").http.get("/live?lifecycle=order&id=a")).status_code == 404
        assert (await site.browser(None).http.get("/live")).status_code == 401


async def test_a_stream_ends_with_the_session(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT", 0.1)
    async with open_console(world) as site:
        ann = site.browser("ann")
        async with stream(ann, "/live") as open_page:
            await open_page.until("beat")
            known = site.console.identity.person

            async def nobody(request: object) -> None:
                return None

            monkeypatch.setattr(site.console.identity, "person", nobody)
            await open_page.until("signed-out")
            monkeypatch.setattr(site.console.identity, "person", known)
        await until(lambda: site.console.live.streams == 0, "its place is free")


async def test_a_page_is_told_of_a_doubt_a_message_and_a_rejection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is a transition."""
    monkeypatch.setattr(live, "EVERY", 0.05)
    monkeypatch.setattr(live, "BEAT", 0.2)
    await world.db.execute("""
        select perdure.start('order', id, '{}', tenant => 'acme') from unnest('{a,b}'::text[]) id;
        insert into perdure.effect
            (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
            values ('k', 'order', 'a', 0, 'send', 't', 'attempting', 'd', now(), now(), now() + interval '1 h')
    """)
    async with open_console(world) as site:
        everybody, ann = site.browser("bob"), site.browser("ann", "look@acme")
        async with (
            stream(everybody, "/live") as everything,
            stream(ann, "/live") as hers,
            stream(ann, "/live?lifecycle=order&id=a") as a,
            stream(ann, "/live?lifecycle=order&id=b") as b,
            stream(site.browser("eve", "look@other"), "/live") as others,
        ):
            for each in (everything, hers, a, b, others):
                await each.until("beat")
            await world.db.execute("update perdure.effect set status = 'in_doubt'")
            for each in (everything, hers, a):
                await each.until("changed", 1)
            await world.db.execute(
                "insert into perdure.message (lifecycle, id, generation, message_id, kind, name)"
                " values ('order', 'a', 0, 'm', 'signal', 'hear')"
            )
            await a.until("changed", 2)
            await world.db.execute(
                "with gone as (delete from perdure.outbox where id = 'b' returning *) insert into perdure.rejected "
                "(seq, lifecycle, id, generation, kind, body, reason) "
                "select seq, lifecycle, id, generation, kind, body, 'unfit' from gone"
            )
            for each, times in ((everything, 2), (hers, 2), (b, 1)):
                await each.until("changed", times)
            await others.until("beat", others.seen.count("beat") + 2)
            assert "changed" not in others.seen, "nobody is told of what others have"
