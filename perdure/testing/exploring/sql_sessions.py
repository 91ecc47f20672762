"""Sessions with a real PostgreSQL on the virtual loop: one statement at a time, while virtual time stands still."""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from datetime import datetime, timedelta
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

import asyncpg

from perdure._store.connecting import BOUNDS, Session
from perdure.testing.exploring.sql_clock import SEARCH_PATH, set_clock
from perdure.testing.exploring.virtual_time import StandsStill, VirtualTime
from perdure.testing.server import START

T = TypeVar("T")

ROUND_TRIP = 0.0005
"""Virtual seconds that a commit takes."""
_SETTINGS = BOUNDS | {
    "application_name": "explored",
    "search_path": SEARCH_PATH,
    # Nobody gives a lock back while a statement waits for it: whether it waits for long makes no difference.
    "lock_timeout": "3ms",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "0",  # of real time, of which a session of a slow machine needs any amount
    "jit": "off",
}
_WAITED = 0.25
"""Virtual seconds after which a statement gives up waiting for a lock of another session."""
_END = "select pg_terminate_backend(pid, 60000) from unnest($1::int[]) pid"
"""It returns when they are gone."""
_SESSIONS = 8
"""Sessions that a scenario finds open."""
_ENDS = ("COMMIT", "ROLLBACK")
_in_statement: ContextVar[bool] = ContextVar("in_statement")
"""Whether a task waits for the answer of a statement."""


class OutsideLoop(VirtualTime, asyncio.SelectorEventLoop):
    """A loop on virtual time that can call real servers.

    Timers of the same moment ring in the order in which they were set. In asyncio's own loop that depends on how often
    it has looked for answers, and so on how PostgreSQL sends them.

    Attributes:
        external: how many calls to real servers are under way. While there are some, virtual time stands still.
    """

    def __init__(self, start: datetime, longest: timedelta) -> None:
        self.external: int = 0
        self._timers = 0
        self._held: list[tuple[Callable[[Context], bool], list[asyncio.Handle]]] = []
        VirtualTime.__init__(self, start, longest)
        asyncio.SelectorEventLoop.__init__(self, _VirtualSelector(self))

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See base class."""
        self._timers += 1
        timer = _Timer(when, callback, args, self, context)
        timer.number = self._timers
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def hold(self, owns: Callable[[Context], bool]) -> Callable[[], None]:
        """See base class. A statement that is under way ends, as it does in a server whose client is frozen."""
        held: list[asyncio.Handle] = []
        entry = owns, held
        self._held.append(entry)

        def release() -> None:
            if entry in self._held:
                self._held.remove(entry)
                self._ready.extend(held)  # type: ignore[attr-defined]

        return release

    def keeps(self, step: asyncio.Handle, context: Context) -> bool:
        """Whether a step of a task is not taken now, because `hold` holds its task."""
        if self._held and not context.get(_in_statement, False):
            for owns, held in self._held:
                if owns(context):
                    held.append(step)
                    return True
        return False

    def rewind(self) -> None:
        """Forget what was scheduled, and begin again; connections stay open."""
        self.external = self._timers = 0
        self._elapsed = self._counted = 0.0
        self._held.clear()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]

    def _call_soon(
        self, callback: Callable[..., object], args: Sequence[Any], context: Context | None
    ) -> asyncio.Handle:
        """See asyncio's: every step of a task comes here, and may be held when its turn comes."""
        is_step = not isinstance(callback, (FunctionType, MethodType))
        call = (_Step if is_step else asyncio.Handle)(callback, args, self, context)
        self._ready.append(call)  # type: ignore[attr-defined]
        return call


class _Step(asyncio.Handle):
    def _run(self) -> None:
        loop: OutsideLoop = self._loop  # type: ignore[attr-defined]
        if not loop.keeps(self, self._context):  # type: ignore[attr-defined]
            super()._run()


class _Timer(asyncio.TimerHandle):
    number = 0

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self.number) < (other.when(), other.number)


class _VirtualSelector(selectors.BaseSelector):
    """Polls the operating system only while a call to a real server is under way."""

    def __init__(self, loop: OutsideLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.external:
            # An answer is read when nothing else can be done, so that it comes at the same moment each time.
            return [] if timeout == 0 else self._real.select(10.0)
        if timeout is None:
            raise StandsStill
        if timeout > 0:
            self._loop.advance(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class Statements:
    """Lets statements run one by one.

    Args:
        loop: the virtual loop.
    """

    def __init__(self, loop: OutsideLoop) -> None:
        self.loop = loop
        self._turn = asyncio.Lock()
        self._clock: asyncpg.Connection[asyncpg.Record] | None = None
        self._shows: datetime | None = None
        self.count: int = 0

    async def run(self, statement: Callable[[], Awaitable[T]]) -> T:
        """The result of a statement; PostgreSQL's clock shows the loop's time before it runs."""
        mark = _in_statement.set(True)
        try:
            async with self._turn:
                self.loop.external += 1
                try:
                    await self._set_clock()
                    self.count += 1
                    return await statement()
                finally:
                    self.loop.external -= 1
        finally:
            _in_statement.reset(mark)

    async def connect(self, url: str, kind: type[asyncpg.Connection[asyncpg.Record]]) -> Any:
        """A new session."""

        async def statement() -> Any:
            return await asyncpg.connect(
                url, connection_class=kind, server_settings=_SETTINGS, timeout=60, max_cached_statement_lifetime=0
            )

        return await self.run(statement)

    async def open(self, url: str) -> None:
        """Open the session that sets PostgreSQL's clock."""
        self._shows = None
        if self._clock is None:
            self._clock = await self.connect(url, asyncpg.Connection)

    async def end(self, sessions: Sequence[int]) -> None:
        """PostgreSQL ends sessions, by their processes: afterwards none of them has a lock."""
        clock = self._clock
        assert clock is not None
        await self.run(lambda: clock.fetch(_END, sessions))

    def close(self) -> None:
        """Close that session."""
        if self._clock is not None:
            self._clock.terminate()

    async def _set_clock(self) -> None:
        if self._clock is not None and self._shows != self.loop.now:
            await set_clock(self._clock, self.loop.now)
            self._shows = self.loop.now


class VirtualSession(Session):
    """A session of a worker, a relay or the app."""

    statements: Statements

    def get_reset_query(self) -> str:
        """Nothing of a session is kept between two that borrow it."""
        return ""

    async def _answered(self, query: str, statement: Callable[..., Awaitable[T]], timeout: float | None) -> T:
        statements = self.statements

        async def answered() -> T:
            return await statement(timeout=120)

        try:
            result = await statements.run(answered)
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(_WAITED)
            raise
        if query.startswith(_ENDS) or "apply_writes" in query:
            await asyncio.sleep(ROUND_TRIP)
        return result

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """See base class; a transaction's `now()` is when it began."""
        return await super().execute(f"{query} select sim.now()" if query.startswith("BEGIN") else query, *args)


class Postgres:
    """Lends sessions as a pool does; one that was lost is not lent again. They outlive a scenario: the first statements
    of a session cost as much as all others that a scenario needs.

    Args:
        url: the database.
        longest: how much virtual time a scenario has.

    Attributes:
        loop: the loop of all scenarios, one after the other.
        statements: runs what the sessions do.
    """

    def __init__(self, url: str, longest: timedelta) -> None:
        self.loop: OutsideLoop = OutsideLoop(START, longest)
        self.statements: Statements = Statements(self.loop)
        self._url = url
        self._kind = type("VirtualSession", (VirtualSession,), {"statements": self.statements})
        self._free: list[VirtualSession] = []
        self._lent: list[VirtualSession] = []
        self._left: list[int] = []
        """Processes of sessions that were closed at the end of a scenario, and may still have a lock."""

    async def open(self) -> None:
        """A scenario begins. It finds the same number of open sessions each time: while one is opened, everybody else
        goes on, which would change the order of events."""
        await self.statements.open(self._url)
        await self.statements.end(self._left)
        self._left.clear()
        while len(self._free) > _SESSIONS:
            self._free.pop().terminate()
        while len(self._free) < _SESSIONS:
            self._free.append(await self._new())

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[VirtualSession]:
        """A session for as long as the context lasts."""
        session = self._free.pop() if self._free else await self._new()
        self._lent.append(session)
        try:
            yield session
        finally:
            if session in self._lent:
                self._lent.remove(session)
            if session.is_closed():
                pass
            elif session.is_in_transaction():
                await self._end([session])
            else:
                self._free.append(session)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Rows of a query of the simulation's own."""
        async with self.lent() as session:
            return await session.fetch(query, *args)

    async def end_sessions(self) -> None:
        """PostgreSQL ends all that somebody has, and rolls their transactions back."""
        await self._end([each for each in self._lent if not each.is_closed()])

    def take_back(self) -> None:
        """A scenario is over: close those that somebody still has."""
        for session in self._lent:
            if not session.is_closed():
                self._left.append(session.get_server_pid())
                session.terminate()
        self._lent.clear()

    def close(self) -> None:
        """Close all of them, and the loop."""
        self.take_back()
        for session in self._free:
            session.terminate()
        self.statements.close()
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self.loop.close()

    async def _end(self, sessions: Sequence[VirtualSession]) -> None:
        await self.statements.end([each.get_server_pid() for each in sessions])
        for each in sessions:
            each.terminate()

    async def _new(self) -> VirtualSession:
        return cast(VirtualSession, await self.statements.connect(self._url, self._kind))
