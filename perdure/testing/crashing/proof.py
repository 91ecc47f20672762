"""`prove` runs a lifecycle once to learn its places, then once for each place and fault, and reports failures."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import signal
import time
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from temporalio.service import RPCError

from perdure._worker.worker import load_app
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import input_json, name_of
from perdure.errors import DeclarationError, PerdureError
from perdure.testing.crashing.audit import audit, evidence
from perdure.testing.crashing.case import Case, Commit, Happened, Receipt, Stage, Subject, Way, exited, preload

I = TypeVar("I")  # noqa: E741
_STARTS = 4
"""How often a worker may be kept from its start."""
_TRIES = 3
"""How many entities may pass by a place."""
_PASSED_BY = "it never came by here, so nothing is proven: is the lifecycle deterministic?"
Arrange = Callable[[str], Awaitable[None] | None]


class CrashPointsFailed(PerdureError, AssertionError):
    """The lifecycle broke a promise. The message has each place, the history and the rows."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a proof.

    Attributes:
        template: URL of a PostgreSQL database with the schema `perdure` and the app's tables. A role that may create
            databases copies it for each case, and nobody else may be connected to it.
        temporal: `host:port` of a Temporal server without TLS, with the namespace `default`.
    """

    template: str
    temporal: str


@dataclass(slots=True)
class Proof:
    """The runs of a proof.

    Attributes:
        undisturbed: the run without a fault.
        cases: the other runs.
    """

    undisturbed: Case
    cases: list[Case] = field(default_factory=list)

    @property
    def places(self) -> list[str]:
        """The places of the faults, in the order in which the worker passes them."""
        return self.undisturbed.places

    def summary(self) -> str:
        """A line for each case, with the time until its end."""
        return "\n".join(f"{each.seconds:5.1f} s  {each}" for each in self.cases)


async def prove(
    lifecycle: type[Lifecycle[I, Any]],
    given: I,
    *,
    app: str,
    servers: Servers,
    happened: Happened,
    folder: Path,
    other_side: tuple[str, int] | None = None,
    commit: Commit | None = None,
    arrange: Arrange | None = None,
    entity_id: Callable[[int], str] = str,
    receipt: Receipt | None = None,
    environment: dict[str, str] | None = None,
    ways: Sequence[Way] = (Way.KILL, Way.CUT),
    only: Callable[[str], bool] = lambda place: True,
    at_once: int = 8,
    patience: float = 180.0,
    counted: Callable[[str], bool] = lambda key: True,
) -> Proof:
    """Test a lifecycle at every crash point; see the module.

    Each case has an entity, a database, a task queue and worker processes of its own. Killed = the worker process sends
    SIGKILL to itself at exactly that place, and another process continues. Cut = the connection that is about to be
    used breaks, or its reply is lost, and the same worker continues. A simulated person resolves parked effects by the
    other side's records (`happened`).

    Args:
        lifecycle: the class.
        given: its input, for every entity.
        app: the app that workers load, as `package.module:name` or `package.module`.
        servers: the servers of the proof.
        happened: returns how often the effect of a key happened, by the other side's records.
        folder: folder of the workers' logs.
        other_side: environment variable by which workers learn the port of the other side, and that port
            (on 127.0.0.1). Its connections are cut as well.
        commit: the app's own writes in the transaction of the start, as `await commit(connection, entity_id)`.
        entity_id: returns the id of the n-th entity, if it is no number.
        arrange: called with each entity's id before the start, to set up the other side.
        receipt: returns the receipt of a key, by the other side's records.
        environment: further environment variables of the workers.
        ways: the faults at each place.
        only: selects places.
        at_once: number of cases that run at the same time.
        patience: seconds after which a case that has not ended has failed.
        counted: selects the keys that are compared with the undisturbed run. Leave out keys that differ in each run.

    Raises:
        CrashPointsFailed: an effect happened more or less often than undisturbed, the final state differs, the mirror
            differs from the workflow, or something is left open.
        DeclarationError: `app` does not run `lifecycle`.
    """
    if lifecycle not in load_app(app).lifecycles.values():
        raise DeclarationError(f"{app} does not run {lifecycle.__name__}: give the app that does")
    input_json(lifecycle, given)  # raised before anything runs
    subject = Subject(
        lifecycle,
        given,
        app,
        database_url=servers.template,
        temporal_address=servers.temporal,
        folder=folder,
        happened=happened,
        commit=commit,
        receipt=receipt,
        environment=environment or {},
        other_side=other_side,
        patience=patience,
        counted=counted,
    )
    await preload()
    run = _Run(subject, arrange, entity_id)
    undisturbed = await run.case(Way.NOTHING)
    proof = Proof(undisturbed)
    if not undisturbed.faults:
        turn = asyncio.Semaphore(at_once)

        async def one(way: Way, place: str) -> Case:
            async with turn:
                return await run.case(way, place, undisturbed)

        wanted = [(way, place) for place in proof.places if only(place) for way in ways]
        proof.cases = list(await asyncio.gather(*(one(way, place) for way, place in wanted)))
    if wrong := [each for each in (undisturbed, *proof.cases) if each.faults]:
        raise CrashPointsFailed("\n\n".join(_described(name_of(lifecycle), each) for each in wrong))
    return proof


class _Run:
    """Runs the cases of one lifecycle."""

    def __init__(self, subject: Subject, arrange: Arrange | None, entity_id: Callable[[int], str]) -> None:
        self._subject = subject
        self._arrange = arrange
        self._entity_id = entity_id
        # Ids must differ from those of other proofs at the same other side.
        self._numbers = itertools.count(1 + 1000 * secrets.randbelow(10**6))

    async def case(self, way: Way, place: str = "", undisturbed: Case | None = None) -> Case:
        """One case. If a workflow task is late, as on a busy machine, a run may pass by the place: then another entity
        plays it."""
        case, tries = await self._one(way, place, undisturbed), 1
        while case.faults == [_PASSED_BY] and tries < _TRIES:
            case, tries = await self._one(way, place, undisturbed), tries + 1
        return case

    async def _one(self, way: Way, place: str, undisturbed: Case | None) -> Case:
        case = Case(self._entity_id(next(self._numbers)), way, place)
        async with _database(self._subject.database_url) as url, Stage(self._subject, case, url).made() as stage:
            if self._arrange is not None and (arranging := self._arrange(case.id)) is not None:
                await arranging
            try:
                await self._play(stage)
                await audit(stage, undisturbed)
            except (TimeoutError, PerdureError, OSError, RPCError, asyncpg.PostgresError) as error:
                case.faults.append(f"{type(error).__name__}: {error}")
            if case.faults:
                case.evidence = await evidence(stage)
        return case

    async def _play(self, stage: Stage) -> None:
        case = stage.case
        waits = case.place.startswith("during the wait")

        def begin() -> Any:
            stage.victim = stage.work(
                die_at=case.place if case.way is Way.KILL and not waits else None,
                stop_at=_just_before(case.place) if case.way is Way.CUT else None,
            )
            return stage.victim

        def is_no_victim(status: int) -> bool:
            return status > 0 and not case.places

        begin()
        await stage.start()
        ending = asyncio.create_task(stage.ended())
        gone = asyncio.create_task(_gone(stage.victim, begin, again=is_no_victim))
        reached = asyncio.create_task(stage.reached.wait())
        try:
            if case.way is Way.KILL:
                if waits:
                    await _first(reached, ending, gone)
                    await _idle(stage)
                    stage.victim.kill()
                await _first(gone, ending)
                case.hit = gone.done() and gone.result() == -signal.SIGKILL
                gone.cancel()
                gone = asyncio.create_task(_gone(stage.work(), stage.work, again=lambda status: True))
            elif case.way is Way.CUT:
                await _first(reached, ending, gone)
                case.hit = reached.done()
            began = time.monotonic()
            await asyncio.wait({ending, gone}, return_when=FIRST_COMPLETED)
            if not ending.done():
                raise PerdureError(f"the worker ended by itself, with status {gone.result()}")
            case.final = ending.result().state
            case.seconds = time.monotonic() - began
        finally:
            for task in (ending, gone, reached):
                task.cancel()
            await asyncio.gather(ending, gone, reached, return_exceptions=True)
        if case.way is not Way.NOTHING and not case.hit:
            case.faults.append(_PASSED_BY)


async def _gone(worker: Any, begin: Callable[[], Any], again: Callable[[int], bool]) -> int:
    """Wait until a worker is gone. A busy machine may keep one from its start: while `again(status)` holds, begin
    another one, and wait for that. Returns the exit status of the last one."""
    status, starts = await exited(worker), 1
    while again(status) and starts < _STARTS:
        status, starts = await exited(begin()), starts + 1
    return status


async def _first(one: asyncio.Task[Any], *endings: asyncio.Task[Any]) -> None:
    """Wait for one event; the last places are just behind the end."""
    await asyncio.wait({one, *endings}, return_when=FIRST_COMPLETED)
    await asyncio.wait({one}, timeout=5)


async def _idle(stage: Stage) -> None:
    """Wait until the workflow waits: Temporal has no task for it."""
    with suppress(RPCError):
        while (await stage.handle().describe()).raw_description.HasField("pending_workflow_task"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _just_before(place: str) -> str:
    """The place at which the worker stops for the fault at `place`: a reply is lost after the request."""
    for what in ("commit", "call", "look-up"):
        place = place.replace(f"after the {what}", f"before the {what}")
    return place


def _described(lifecycle: str, case: Case) -> str:
    return f"{lifecycle}, {case}\n- " + "\n- ".join(case.faults) + f"\n  {case.evidence}"


@asynccontextmanager
async def _database(template: str) -> AsyncIterator[str]:
    """A copy of the template for one case."""
    at = urlsplit(template)
    name = f"crash_{secrets.token_hex(6)}"
    admin = urlunsplit(at._replace(path="/postgres"))
    await _execute(admin, f'create database {name} template "{at.path.removeprefix("/")}"')
    try:
        yield urlunsplit(at._replace(path=f"/{name}"))
    finally:
        await _execute(admin, f"drop database {name} with (force)")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
