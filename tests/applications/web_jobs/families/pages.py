"""The pages of all jobs in virtual time: they count what they did, and their count is the judge's."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from activities.http.exchange import Bounds, Broken, HttpRequest, Reply, Stage
from perdure.testing.exploring.workers import current_worker
from tests.applications.web_jobs.families.scenario import MASTERS, TYPES, Listing, Page

if TYPE_CHECKING:
    from tests.applications.web_jobs.families.world import FamilyWorld

ORIGIN = "http://pages.example"


@dataclass
class Work:
    """What a page did for one key.

    Attributes:
        kind: the type of the job.
        begun: when, each time.
        done_at: when it is, or was, done.
        well: whether that was what it had to do.
        known_at: when its status URL first said that it was called.
        answered: what it answered first.
    """

    job: str
    kind: str
    begun: list[float] = field(default_factory=list)
    done_at: float = 0.0
    well: bool = True
    known_at: float | None = None
    answered: Reply | None = None


class Played:
    """One exchange with a page, in place of `activities.http.exchange.Exchange`."""

    def __init__(
        self,
        request: HttpRequest,
        names: Any,
        *,
        bounds: Bounds,
        seconds: float,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> None:
        self.request, self.before_first_byte = request, before_first_byte
        self.stage, self.left = Stage.CONNECT, False
        self._seconds = seconds

    async def make(self) -> Reply:
        """See `Exchange`."""
        worker = current_worker.get()
        world: Any = worker.world
        try:
            async with asyncio.timeout(self._seconds):
                reply: Reply = await world.pages.answer(self)
        except TimeoutError:
            raise Broken("the answer: it took too long", left=self.left) from None
        await worker.here()
        return reply

    def leaves(self) -> None:
        """The first byte of the request leaves."""
        self.before_first_byte()
        self.left, self.stage = True, Stage.ANSWER


class Pages:
    """Plays all pages.

    Attributes:
        works: what was done, by key.
        listed: of each master and page of its list what was listed, fetch by fetch.
        unlistable: masters of which a page of the list can't be used, or is gone.
    """

    def __init__(self, world: FamilyWorld, specs: Mapping[str, Page]) -> None:
        self._world, self._specs = world, specs
        self.works: dict[str, Work] = {}
        self.listed: dict[str, dict[int, list[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(list))
        self.unlistable: set[str] = set()
        self._words: dict[tuple[str, str], list[str]] = {}
        self._fetches: Counter[tuple[str, int]] = Counter()

    async def answer(self, exchange: Played) -> Reply:
        """What the page answers to one request."""
        request = exchange.request
        url = urlsplit(request.url)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        job = unquote(request.headers["Perdure-Job"])
        key = request.headers["Idempotency-Key"].strip('"')
        await asyncio.sleep(0.002)
        await current_worker.get().here()
        match url.path.split("/")[1]:
            case "call":
                return await self._call(exchange, job, url.path.split("/")[2], key)
            case "status":
                return await self._look(exchange, job, key, lambda: self._status(job, key))
            case "state":
                return await self._look(exchange, job, key, lambda: self._state(job, query["key"]))
            case "list":
                exchange.leaves()
                return await self._list(job, int(query["page"]))
            case _:
                raise AssertionError(f"nobody asks for {request.url}")

    def of(self, job: str) -> Page:
        """How the page of a job behaves."""
        return self._specs.get(job, Page())

    # -- calls

    async def _call(self, exchange: Played, job: str, kind: str, key: str) -> Reply:
        how, policy = self._word("calls", job), TYPES[kind]["doubt"]
        self._cover("call", how or "done")
        if how == "no connection":
            raise Broken("connecting: refused", left=False)
        exchange.leaves()
        if how == "lost before":
            raise Broken("the answer: closed", left=True)
        work = self.works.setdefault(key, Work(job, kind))
        if work.known_at is not None:
            self._world.found("called again, and its status URL had said that it was called", key)
        if policy == "dedupe" and work.answered is not None:
            return work.answered
        if how in ("422", "429", "503", "409", "500"):
            return _reply(int(how), headers={"Retry-After": "2"} if how in ("429", "503") else {})
        return await self._work(how, kind, key, work, exchange)

    async def _work(self, how: str, kind: str, key: str, work: Work, exchange: Played) -> Reply:
        loop, page = self._world.loop, self.of(work.job)
        takes = page.work if how in ("slow", "202") else 0.0
        if work.begun and work.well:
            self._world.done_again(key, kind)
        work.begun.append(loop.time())
        work.done_at, work.well = loop.time() + takes, page.ends_well or not takes
        if how == "202":
            work.answered = self._at_work(exchange, kind, key)
        else:
            work.answered = self._done(work)
        await self._befalls(how)
        if how == "slow":
            await asyncio.sleep(takes)
        if how in ("lost after", "killed after", "frozen"):
            raise Broken("the answer: closed", left=True)
        match how:
            case "500 done":
                return _reply(500)
            case "303 done":
                return _reply(303, headers={"Location": "/thanks"})
            case "garbage":
                return Reply(200, {"Content-Type": "text/html"}, b"\xff\x00<html>")
            case "too long":
                return Reply(200, {"Content-Type": "application/json"}, None, too_long=True)
            case _:
                return work.answered

    async def _befalls(self, how: str) -> None:
        worker = current_worker.get()
        if how == "killed after":
            self._world.incidents.inject(worker, "kill", 3.0)
        elif how == "frozen":
            worker.freeze(self._world.span(40))
        await worker.here()

    def _at_work(self, exchange: Played, kind: str, key: str) -> Reply:
        if TYPES[kind].get("callback"):
            token = exchange.request.headers["Perdure-Callback"].rpartition("/")[2]
            work = self.works[key]
            self._world.loop.call_at(work.done_at, self._world.calls_back, token, work.well)
            return _reply(202)
        return _reply(202, headers={"Location": f"/state?key={quote(key, safe='')}"})

    def _done(self, work: Work) -> Reply:
        if not work.well:
            return _reply(422)
        return self._listing(work.job, 0) if work.kind in MASTERS else _reply(200)

    # -- looks

    async def _look(self, exchange: Played, job: str, key: str, truth: Callable[[], Reply]) -> Reply:
        exchange.leaves()
        how = self._word("looks", job)
        self._cover("look", how or "answers")
        return await self._disturbed(how) or truth()

    async def _disturbed(self, how: str) -> Reply | None:
        match how:
            case "500" | "429":
                return _reply(int(how))
            case "lost":
                raise Broken("the answer: closed", left=True)
            case "slow":
                await asyncio.sleep(30)
                raise Broken("the answer: closed", left=True)
            case _:
                return None

    def _status(self, job: str, key: str) -> Reply:
        work = self.works.get(key)
        if work is None or not work.begun:
            return _reply(404)
        reply = self._how_far(work)
        if reply.status == 422:  # it has failed: nothing was done
            return _reply(404)
        if work.known_at is None:
            work.known_at = self._world.loop.time()
        return reply

    def _state(self, job: str, key: str) -> Reply:
        return self._how_far(self.works[key])

    def _how_far(self, work: Work) -> Reply:
        if self._world.loop.time() < work.done_at:
            return _reply(202)
        return self._done(work)

    # -- lists

    async def _list(self, job: str, number: int) -> Reply:
        reply = self._listing(job, number)
        how = str(reply.headers.get("X-How", ""))
        self._cover("list", how or "lists")
        return await self._disturbed(how) or reply

    def _listing(self, job: str, number: int) -> Reply:
        """What this fetch of a page brings."""
        lists = self.of(job).lists
        fetches = lists[number] if number < len(lists) else (Listing(),)
        place = self._fetches[job, number]
        self._fetches[job, number] += 1
        listing = fetches[min(place, len(fetches) - 1)]
        following = f"{ORIGIN}/list?job={quote(job, safe='')}&page={number + 1}" if number + 1 < len(lists) else None
        if listing.how in ("500", "lost", "slow", "429") and number:
            return _reply(200, headers={"X-How": listing.how})
        if listing.how in ("404", "garbage", "too long", "unusable", "twice", "circle"):
            self.unlistable.add(job)
            return self._unusable(listing.how, job, number)
        self.listed[job][number].append(listing.ids)
        return _reply(200, self._body(job, listing.ids), following=following)

    def _unusable(self, how: str, job: str, number: int) -> Reply:
        match how:
            case "404":
                return _reply(404 if number else 422)  # a repeated call with a 404 stays in doubt
            case "garbage":
                return Reply(200, {"Content-Type": "application/json"}, b'{"children": [{]}')
            case "too long":
                return Reply(200, {"Content-Type": "application/json"}, None, too_long=True)
            case "unusable":
                return _reply(200, self._body(job, ("a/b",)))
            case "twice":
                return _reply(200, self._body(job, ("x", "x")))
            case _:
                following = f"{ORIGIN}/list?job={quote(job, safe='')}&page={number}"
                return _reply(200, self._body(job, ()), following=following)

    def _body(self, job: str, ids: tuple[str, ...]) -> Any:
        page, types = self.of(job), self._world.scenario.types
        children = [{"id": each, "type": types.get(each, "once")} for each in ids]
        return {"children": children, "window": page.window, "tolerates": page.tolerates}

    def _word(self, kind: str, job: str) -> str:
        words = self._words.setdefault((kind, job), list(getattr(self.of(job), kind)))
        return words.pop(0) if words else ""

    def _cover(self, place: str, what: str) -> None:
        self._world.cover(place, what)


def _reply(
    status: int, body: Any = None, *, headers: Mapping[str, str] | None = None, following: str | None = None
) -> Reply:
    sent = None if body is None and status >= 300 else json.dumps({} if body is None else body).encode()
    return Reply(status, {"Content-Type": "application/json", **(headers or {})}, sent, next=following)
