"""One person, or a stranger, can't keep the others out, nor do one thing twice: a form counts once in all processes,
and streams, pages under way, acts on many and wrong tokens are limited for each."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from perdure.console import Person, Tokens, connections, jobs, limiting, live
from perdure.console.page import View
from perdure.console.security import HEADERS
from tests.deadline import in_time, until
from tests.integration.console.browsing import Site, open_console, readable
from tests.integration.console.test_live import stream
from tests.world import World


async def test_a_form_counts_once_in_all_processes_that_share_the_folder(world: World) -> None:
    await world.db.execute("select perdure.start('order', n::text, '{}') from generate_series(1, 2) n")
    async with open_console(world) as one, open_console(world) as other:
        ann = one.browser("ann", "settle")
        form = {**await ann.form("/act/cancel?lifecycle=order&id=1", "/act/cancel"), "note": "n"}
        answers = await asyncio.gather(
            *(ann.http.post(f"{site.url}act/cancel", data={**form, "id": n}) for site in (one, other) for n in "12")
        )
        assert sorted(each.status_code for each in answers) == [303, 403, 403, 403]
    async with open_console(world) as later:
        again = await ann_again(later, form, dict(ann.http.cookies))
        assert again.status_code == 403, "nor after the console was started again"
        assert "it was sent before" in readable(again.text)
    assert await world.db.fetchval("select count(*) from perdure.message where kind = 'cancel'") == 1


async def ann_again(site: Site, form: dict[str, str], cookies: dict[str, str]) -> httpx.Response:
    """The same form of the same browser."""
    ann = site.browser("ann", "settle")
    ann.http.cookies.update(cookies)
    return await ann.http.post("/act/cancel", data=form)


async def test_the_streams_of_one_person_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_OF_ONE", 2)
    monkeypatch.setattr(live, "BEAT", 0.2)
    async with open_console(world) as site:
        ann, bob = site.browser("ann"), site.browser("bob")
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(stream(each, "/live")) for each in (ann, ann, bob)]
            for each in opened:
                await each.until("beat")
            assert site.console.live.streams == 3
            assert (await ann.http.get("/live")).status_code == 503
            await ann.get("/")
        await until(lambda: site.console.live.streams == 0, "places are free again when pages are closed")
        async with stream(ann, "/live") as again:
            await again.until("beat")


async def test_pages_and_files_of_one_person_leave_connections_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person's pages wait for a lock; the page of another one comes meanwhile, and what is too much is refused."""
    monkeypatch.setattr(limiting, "WAITING", 5)
    await world.db.execute("select perdure.start('order', 'a', '{}')")
    async with open_console(world) as site:
        ann, bob = site.browser("ann"), site.browser("bob")
        await bob.get("/list")
        ann.http._transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=None))
        most, pages = site.console.places.most, site.console.sources.for_pages
        assert most < pages < world.config.connections
        async with world.db.transaction():
            await world.db.execute("lock perdure.entity in access exclusive mode")
            slow = [asyncio.create_task(ann.http.get("/export?format=csv")) for _ in range(most + limiting.WAITING + 1)]
            refused = await first(slow)
            assert refused.status_code == 429
            assert "Many of yours wait already" in readable(refused.text)
            await in_time(bob.get("/audit"))
            assert sum(each.done() for each in slow) == 1
        assert {each.status_code for each in await in_time(asyncio.gather(*slow))} == {200, 429}
        await until(lambda: site.console.places._places == {}, "places are free again when files were sent")


async def first(tasks: list[asyncio.Task[httpx.Response]]) -> httpx.Response:
    """The first answer."""
    done, _ = await in_time(asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))
    return done.pop().result()


async def test_acts_on_many_of_one_person_are_limited_and_end_when_the_person_is_revoked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST", 1)
    await world.db.execute("select perdure.start('order', n::text, '{}') from generate_series(1, 40) n")
    page = "/act/cancel?lifecycle=order&state=starting"
    async with open_console(world) as site:
        ann, bob = site.browser("ann", "bulk"), site.browser("bob", "bulk")
        job = str((await ann.send(page, "/act/cancel", rate="1")).url.path)
        second = await ann.send(page, "/act/cancel", rate="1")
        assert second.status_code == 409
        assert "wait for one of them, or stop one" in readable(second.text)
        theirs = await bob.send(page, "/act/cancel", rate="1")
        assert theirs.status_code == 200
        site.console.folder.revoke("ann")

        async def ended() -> str:
            text = readable(await ann.get(job))
            return text if "It was stopped" in text else ""

        assert "ann was revoked" in await until(ended, "the job of who is revoked ends")
        assert "It runs since" in readable(await bob.get(str(theirs.url.path)))
        await bob.send(str(theirs.url.path), f"{theirs.url.path}/stop")
    assert await world.db.fetchval("select count(*) from perdure.message where kind = 'cancel'") < 40


async def test_nobody_who_guesses_tokens_keeps_others_from_signing_in(world: World) -> None:
    async with open_console(world, Tokens()) as site:
        token = site.console.folder.add_token(Person("ann", Person.granted("look")), 600)
        eve, ann = site.browser(None), site.browser(None)
        form, tried = await eve.form("/sign-in", "/sign-in"), 0
        while (await eve.http.post("/sign-in", data={**form, "token": "guessed"})).status_code == 403:
            tried += 1
        assert tried <= site.console.rates.sign_ins.per_minute + 1
        site.console.rates.requests.per_minute = 0
        for _ in range(3):
            await eve.http.get("/")
        site.console.rates.requests.per_minute = 600
        signed = await ann.send("/sign-in", "/sign-in", token=token)
        assert "ann Sign out" in readable(signed.text), "all come from the address of one proxy"


async def test_a_connection_without_a_request_is_closed_and_what_no_page_answers_has_the_headers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_console(world) as site:
        port = int(site.url.rsplit(":", 1)[1].strip("/"))
        with monkeypatch.context() as soon:
            soon.setattr(connections, "SLOWEST", 0.2)
            for begun in (b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begun)
                assert await in_time(reader.read()) == b"", "a connection that sends nothing is closed"
                writer.close()
        bad = await raw(port, b"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n")
        upgrade = b"Connection: upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        socket = await raw(
            port, b"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + b"Sec-WebSocket-Key: " + b"x" * 24 + b"\r\n\r\n"
        )
        monkeypatch.setattr(connections, "MOST", 0)
        full = await raw(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        refused = ((bad, "400 Bad Request"), (socket, "401 Unauthorized"), (full, "503 Service Unavailable"))
        for answer, status in refused:
            assert answer.startswith(f"HTTP/1.1 {status}")
            for name, value in HEADERS.items():
                assert f"\r\n{name}: {value}\r\n".lower() in answer.lower()


async def raw(port: int, request: bytes) -> str:
    """What is answered to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await in_time(reader.read())).decode()
    writer.close()
    return answer


async def test_a_place_is_free_again_after_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_console(world) as site:
        ann = site.browser("ann")

        def fails(view: View) -> None:
            raise RuntimeError("by the test")

        monkeypatch.setattr(View, "render", fails)
        for _ in range(limiting.WAITING + 10):
            await ann.get("/audit", 500)
        assert site.console.places._places == {}
