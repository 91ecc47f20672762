"""One case: an entity whose worker is killed, or its connection broken, at one place; another worker; the end."""

from __future__ import annotations

import asyncio
import inspect
import json
import multiprocessing
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import temporalio.client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from perdure._crypto.codec import encrypting_client
from perdure._store.schema import Connection
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import name_of
from perdure.client import Client, EntityStatus
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import AlreadyFinished, DatabaseUnavailable, NoSuchEntity, NotNow, TemporalUnavailable
from perdure.settings import Settings
from perdure.testing.crashing.victim import PRELOADED, Orders, work
from perdure.testing.proxy import Proxy, proxied

T = TypeVar("T")
Happened = Callable[[str], int | Awaitable[int]]
"""How often the effect of this key happened, by the other side's records."""
Commit = Callable[[Connection, str], Awaitable[None]]
"""The app's own writes in the transaction of the start, for this entity id: its row, messages."""
Receipt = Callable[[str], Any]
"""The receipt that a person finds in the other side's records, for this key."""

FORK = multiprocessing.get_context("forkserver")


class Way(StrEnum):
    """The fault at a place."""

    NOTHING = "runs undisturbed"
    KILL = "the worker is killed"
    CUT = "the connection breaks"


@dataclass(frozen=True, slots=True)
class Subject:
    """The lifecycle under test, the same for all cases. See `prove`."""

    lifecycle: type[Lifecycle[Any, Any]]
    given: Any
    app: str
    database_url: str
    temporal_address: str
    folder: Path
    happened: Happened
    commit: Commit | None = None
    receipt: Receipt | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    other_side: tuple[str, int] | None = None
    patience: float = 180.0
    counted: Callable[[str], bool] = lambda key: True


@dataclass(slots=True)
class Case:
    """The run of one entity through one fault.

    Attributes:
        id: id of the entity.
        way: kind of the fault.
        place: place of the fault; empty for the undisturbed run.
        places: the places that the first worker passed, in order.
        final: the final state; None = the entity has not ended.
        hit: whether the place was reached.
        seconds: from the fault to the end.
        faults: what is wrong with the end.
        evidence: history, rows and logs, if something is wrong.
    """

    id: str
    way: Way
    place: str = ""
    places: list[str] = field(default_factory=list)
    final: str | None = None
    hit: bool = False
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    evidence: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.way.value}" if self.place else self.way.value


class Stage:
    """The servers of one case, as its workers see them, and the workers.

    Attributes:
        database_url: URL of the case's own database.
        client: a client whose connections are not broken.
        victim: the worker process that the fault is for. Its places count.
    """

    def __init__(self, subject: Subject, case: Case, database_url: str) -> None:
        self.subject = subject
        self.case = case
        self.database_url = database_url
        # The client encrypts and decrypts as the workers do.
        of_workers = {f"PERDURE_{name}".upper(): name for name in Settings.model_fields}
        given: dict[str, Any] = {
            of_workers[name]: value for name, value in subject.environment.items() if name in of_workers
        }
        given |= {"database_url": database_url, "scope": f"crash-{database_url.rpartition('_')[2]}"}
        self.config: Settings = Settings(**given)
        self.server: temporalio.client.Client
        self.client: Client
        self.victim: Any = None
        self.logs: list[Path] = []
        self.reached: asyncio.Event = asyncio.Event()
        self._postgres: Proxy
        self._temporal: Proxy
        self._other_side: Proxy | None = None
        self._line = 0
        self._workers: list[Any] = []
        self._stop_at: str | None = None

    @asynccontextmanager
    async def made(self) -> AsyncIterator[Stage]:
        """Open proxies and connections, and end all at the end, workers first."""
        database, temporal = urlsplit(self.database_url), urlsplit(f"//{self.subject.temporal_address}")
        async with AsyncExitStack() as stack:
            self._postgres = await stack.enter_async_context(
                proxied(database.port or 5432, database.hostname or "localhost")
            )
            self._temporal = await stack.enter_async_context(
                proxied(temporal.port or 7233, temporal.hostname or "localhost")
            )
            if self.subject.other_side is not None:
                self._other_side = await stack.enter_async_context(proxied(self.subject.other_side[1]))
            line = await asyncio.start_server(self._listen, "127.0.0.1", 0)
            stack.callback(line.close)
            self._line = line.sockets[0].getsockname()[1]
            stack.push_async_callback(self._end_workers)
            server = await temporalio.client.Client.connect(
                self.subject.temporal_address, data_converter=pydantic_data_converter
            )
            self.server = encrypting_client(server, self.config)
            self.client = await self.answered(
                lambda: stack.enter_async_context(Client.connect(self.config, temporal_client=self.server))
            )
            yield self

    async def answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of a server, which is asked again for as long as it is too busy to give one."""
        until = time.monotonic() + self.subject.patience
        while True:
            try:
                return await ask()
            except (DatabaseUnavailable, RPCError):
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.05)

    def work(self, *, die_at: str | None = None, stop_at: str | None = None) -> Any:
        """Start a worker process; returns it. At `stop_at` it waits while the connection of the case's place breaks."""
        self._stop_at = stop_at or self._stop_at
        log = self.subject.folder / f"{self.case.id}-{len(self.logs)}.log"
        self.logs.append(log)
        orders = Orders(
            app=self.subject.app,
            environment=self._environment(),
            log=str(log),
            line=self._line,
            die_at=die_at,
            stop_at=stop_at,
            checks=self.case.way is Way.NOTHING,
        )
        worker = FORK.Process(target=work, args=(orders,), daemon=True)
        worker.start()
        self._workers.append(worker)
        return worker

    async def start(self) -> None:
        """Commit the row and the start of its lifecycle, as the app does."""
        connection = await asyncpg.connect(self.database_url)
        try:
            async with connection.transaction():
                await self.client.start(self.subject.lifecycle, self.case.id, self.subject.given, connection=connection)
                if self.subject.commit is not None:
                    await self.subject.commit(connection, self.case.id)
        finally:
            await connection.close()

    async def ended(self) -> EntityStatus:
        """Wait for the final state, and meanwhile resolve doubts as a person would."""
        until = time.monotonic() + self.subject.patience
        while True:
            try:
                seen = await self.client.status(self.subject.lifecycle, self.case.id)
                if seen.final:
                    return seen
                if seen.attention is not None:
                    await self._note_what_happened(seen)
                problem = f"it is in state {seen.state!r}, attention: {seen.attention}"
            except (DatabaseUnavailable, TemporalUnavailable, NotNow, AlreadyFinished, NoSuchEntity) as error:
                problem = str(error)
            if time.monotonic() > until:
                raise TimeoutError(f"not final after {self.subject.patience:g} s: {problem}")
            await asyncio.sleep(0.1)

    def handle(self) -> temporalio.client.WorkflowHandle[Any, Any]:
        """Temporal's handle of the case's workflow."""
        entity = Entity(name_of(self.subject.lifecycle), self.case.id)
        return self.server.get_workflow_handle(entity.workflow_id(self.config.scope))

    async def happened(self, key: str) -> int:
        """How often the effect happened at the other side."""
        count = self.subject.happened(key)
        return await count if inspect.isawaitable(count) else count

    def _break_connection(self, place: str) -> None:
        """Break the connection that the worker will use next at `place`. After a commit or call, the reply is lost."""
        mark, other_side = b"COMMIT" if "outbox" in place else self.case.id.encode(), self._other_side
        match place.split(" ", 3)[:3]:
            case ["before", "the", "commit"]:
                self._postgres.lose_request(mark)
            case ["after", "the", "commit"]:
                self._postgres.lose_reply(mark)
            case ["after", "the", "delivery"]:
                self._postgres.cut()
            case ["before", "the", "call" | "look-up"] if other_side is not None:
                other_side.lose_request()
            case ["after", "the", "call" | "look-up"] if other_side is not None:
                other_side.lose_reply()
            case ["after", "the", "task"] | ["before", "the", "report"]:
                self._temporal.lose_reply()
            case ["before", "the", "delivery" | "task"]:
                self._temporal.cut()
            case _:
                self._postgres.cut()
                self._temporal.cut()

    async def _note_what_happened(self, seen: EntityStatus) -> None:
        for effect in seen.effects:
            if not effect.status.unknown:
                continue
            done = await self.happened(effect.key) > 0
            receipt = self.subject.receipt(effect.key) if done and self.subject.receipt is not None else None
            outcome = EffectStatus.DONE if done else EffectStatus.NOT_DONE
            note = "asked the other side"
            await self.client.resolve(
                seen.lifecycle, seen.id, outcome, by="test", note=note, receipt=receipt, effect=effect.effect
            )

    def _environment(self) -> dict[str, str]:
        at = urlsplit(self.database_url)
        login = at.netloc.rpartition("@")[0]
        netloc = f"{login}@127.0.0.1:{self._postgres.port}" if login else f"127.0.0.1:{self._postgres.port}"
        environment = {
            **self.subject.environment,
            "PERDURE_DATABASE_URL": urlunsplit(at._replace(netloc=netloc)),
            "PERDURE_SCOPE": self.config.scope or "",
            "PERDURE_RELAY_POLL_INTERVAL": "0.05",
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self._temporal.port}",
            "TEMPORAL_NAMESPACE": self.server.namespace,  # not the environment of a shell in which `perdure dev` runs
        }
        if self.subject.other_side is not None and self._other_side is not None:
            environment[self.subject.other_side[0]] = str(self._other_side.port)
        return environment

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                reached = json.loads(line)
                if reached["pid"] != self.victim.pid:
                    continue
                place = reached["place"]
                self.case.places.append(place)
                if place == self.case.place:
                    self.reached.set()
                if place == self._stop_at:
                    self._break_connection(self.case.place)
                    self.reached.set()
                    writer.write(b"\n")
        except ConnectionError:
            pass  # the worker was killed, as this case requires
        finally:
            writer.close()

    async def _end_workers(self) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            await exited(worker)


async def preload() -> None:
    """Let the process from which workers are forked import the libraries, once."""
    FORK.set_forkserver_preload(PRELOADED)
    await asyncio.to_thread(forkserver.ensure_running)


async def exited(worker: Any) -> int:
    """Wait until a worker process is gone. Returns its exit status, which is negative if a signal ended it."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(worker.sentinel, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(worker.sentinel)
    worker.join()
    return int(worker.exitcode)
