"""The activities of a rehearsal: Perdure's shared body around the ends in the script, on the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from temporalio.exceptions import ApplicationError, TimeoutType

from perdure._activity.execution import ask, attempt, keep, take
from perdure._wire.names import WRITE
from perdure._wire.orders import AttemptOrder, LookupOrder, Report, StepOrder
from perdure._wire.writes import Store, Write
from perdure.contracts.effects import Effect, Lookup
from perdure.errors import StepFailed
from perdure.testing.script import After, Contract, Late, NotPerformed, NotPickedUp, Script, ScriptError, WorkerLost
from perdure.testing.server_activities import ActivityCall, ActivityEnd, Completed, Failed, TimedOut, UnderWay

_MISSED_AFTER = timedelta(seconds=5)
"""Time-out of a workflow task, as the relay starts runs: after that another worker runs an inline call again."""
_TAKEN_AGAIN = timedelta(seconds=1)
"""After a step that failed as an activity."""
_NOW = timedelta(0)

Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Pause the work, until its time has passed."""
Leave: TypeAlias = Callable[[timedelta], Awaitable[None]]
"""Work on in the background until so much time has passed for everybody else."""


class Vanished(BaseException):
    """The worker is gone in the middle of a body; nothing may take it for a doubt and put that on record."""

    def __init__(self, progress: Any = None) -> None:
        super().__init__(progress)
        self.progress = progress


class Work:
    """The work on an activity, which pauses while time passes.

    Attributes:
        paused: set while it pauses.
    """

    def __init__(self) -> None:
        self.paused: asyncio.Event = asyncio.Event()
        self._goes_on = asyncio.Event()

    async def pause(self) -> None:
        """Pause, until the time has passed."""
        self._goes_on.clear()
        self.paused.set()
        await self._goes_on.wait()

    def resume(self) -> None:
        """The time has passed."""
        self.paused.clear()
        self._goes_on.set()


class RehearsalHost:
    """What surrounds an execution in a rehearsal; see `execution.Host`."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    def heartbeat(self, progress: Any) -> None:
        """Nobody listens."""

    def stopping(self) -> asyncio.Future[None]:
        """It is never stopped."""
        return asyncio.get_running_loop().create_future()

    @property
    def heartbeat_every(self) -> float | None:
        """It takes no time, so it need not beat."""
        return None

    @property
    def stop_asked(self) -> bool:
        """It is never stopped."""
        return False

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self._clock()

    def boot_clock(self) -> float:
        """It takes no time, however busy the machine is."""
        return 0.0

    @property
    def resources(self) -> None:
        """The bodies' ends are scripted: they use nothing."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a body: its key, which attempt, and its input."""

    key: str
    attempt: int
    given: Any


class Stage:
    """Plays the activities.

    Args:
        contracts: effects and look-ups by name.
        script: what happens at each call.
        now: the virtual time.
        outside: lets something happen later.
    """

    def __init__(
        self,
        contracts: Mapping[str, Contract],
        script: Script,
        now: Callable[[], datetime],
        outside: Callable[[Callable[[], Awaitable[None]], timedelta], None],
    ) -> None:
        self.calls: dict[Contract, list[Call]] = {contract: [] for contract in contracts.values()}
        self.store: Store
        self._contracts = contracts
        self._script = script
        self._now = now
        self._outside = outside
        self._ahead = _NOW
        """How much of the call that is being played has passed."""
        self._under_way: set[asyncio.Task[Any]] = set()

    def clock(self) -> datetime:
        """The time, as the store sees it."""
        return self._now() + self._ahead

    async def play(self, call: ActivityCall) -> ActivityEnd | UnderWay:
        """How an activity ends, and when.

        Raises:
            ScriptError: it was called past the end of its script.
        """
        if call.activity_type == WRITE:
            [write] = call.args([Write])
            return Completed(await keep(write, self.store, 0))
        work = Work()
        task = asyncio.ensure_future(self._perform(self._contracts[call.activity_type], call, work.pause))
        self._under_way.add(task)
        return await self._until_it_pauses(task, work)

    async def _until_it_pauses(self, task: asyncio.Task[ActivityEnd], work: Work) -> ActivityEnd | UnderWay:
        self._ahead = _NOW
        work.resume()
        try:
            if not await _first(task, work.paused):
                return UnderWay(self._ahead, lambda: self._until_it_pauses(task, work))
            self._under_way.discard(task)
            return task.result()
        except NotPerformed as ended:
            raise ScriptError(str(ended)) from None
        finally:
            self._ahead = _NOW

    def unused(self) -> dict[Contract, list[Any]]:
        """Entries of the script that never happened."""
        return self._script.unused()

    async def close(self) -> None:
        """End the calls that nobody waits for any more."""
        self._under_way = {task for task in self._under_way if not task.done()}
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _perform(self, contract: Contract, call: ActivityCall, pause: Pause) -> ActivityEnd:
        while True:
            try:
                return await self._execute(contract, call, pause)
            except StepFailed as failed:
                if call.is_local:
                    return Failed(ApplicationError(str(failed), type=StepFailed.__name__), self._ahead)
                self._ahead += _TAKEN_AGAIN
                continue
            except Vanished as lost:
                progress = () if lost.progress is None else (lost.progress,)
            if not call.is_local:
                return TimedOut(TimeoutType.HEARTBEAT, self._ahead + (call.heartbeat_timeout or _NOW), progress)
            self._ahead += _MISSED_AFTER

    async def _execute(self, contract: Contract, call: ActivityCall, pause: Pause) -> ActivityEnd:
        """One execution by one worker.

        Raises:
            Vanished: nobody will hear from that worker, or only later.
        """
        entry = self._script.next(contract)
        if isinstance(entry, NotPickedUp):
            self._script.take(contract, "", 0)
            return TimedOut(TimeoutType.SCHEDULE_TO_START, call.schedule_to_start_timeout or _NOW)
        if isinstance(entry, WorkerLost) and entry.before:
            self._script.take(contract, "", 0)
            raise Vanished(entry.progress)
        gone = asyncio.Event()

        async def leave(after: timedelta) -> None:
            back: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            async def comes_back() -> None:
                back.set_result(None)
                await asyncio.wait({task})

            self._outside(comes_back, after)
            gone.set()
            await back

        task = asyncio.ensure_future(self._report(contract, call, pause, leave))
        self._under_way.add(task)
        if await _first(task, gone):
            self._under_way.discard(task)
            return Completed(task.result(), self._ahead)
        raise Vanished

    async def _report(self, contract: Contract, call: ActivityCall, pause: Pause, leave: Leave) -> Report:
        async def body(given: Any, about: Any) -> Any:
            key, number = _whose(contract, about)
            entry = self._script.take(contract, key, number)
            self.calls[contract].append(Call(key, number, given))
            return await self._act(entry, given, about, pause, leave)

        if isinstance(contract, Effect):
            [order] = call.args([AttemptOrder])
            return await attempt(contract, body, order, self.store, RehearsalHost(self.clock))
        if isinstance(contract, Lookup):
            [question] = call.args([LookupOrder])
            return await ask(contract, body, question, self.store, RehearsalHost(self.clock))
        [step] = call.args([StepOrder])
        return await take(contract, body, step, self.store, RehearsalHost(self.clock))

    async def _act(self, entry: Any, given: Any, about: Any, pause: Pause, leave: Leave) -> Any:
        match entry:
            case After(duration, what):
                self._ahead += duration
                await pause()
                return await self._act(what, given, about, pause, leave)
            case Late(what, after):
                await leave(after)
                return await self._act(what, given, about, _go_on, leave)
            case WorkerLost(progress=progress):
                raise Vanished(progress)
            case Exception():
                raise entry
            case _ if callable(entry):
                return await entry(given, about)
            case _:
                return entry


def _whose(contract: Contract, about: Any) -> tuple[str, int]:
    """Key and number of a call."""
    if isinstance(contract, Effect):
        return about.key, about.number
    return (about.key, about.attempts) if isinstance(contract, Lookup) else (str(about.entity), 1)


async def _go_on() -> None:
    """Work without pauses: nobody waits for it any more."""


async def _first(task: asyncio.Task[Any], event: asyncio.Event) -> bool:
    """Whether the task ended, rather than that the event came."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return task.done()
