"""Group commit: writes of one process that arrive together are committed together.

While one batch is under way the next one gathers. A lone write goes at once, and nothing waits for company while
commits are fast (see `company`). A batch is sorted by entity and is all or nothing; when PostgreSQL refuses it, it
is halved until the culprit stands alone, beside the others and not in their way (invariant 8).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure import _faults as faults
from perdure._crypto.private import SEALING
from perdure._store.company import Company
from perdure._text.privacy import describe
from perdure._wire.writes import Answer, Write
from perdure.errors import DatabaseUnavailable, RefusedWrite, UnstorableWrite
from perdure.logs import says

log = logging.getLogger("perdure.store")

Commit = Callable[[Sequence[str]], Awaitable[Sequence[Answer | None]]]
"""Commits a batch of writes in JSON; answers each, with None where another session holds the lock of the entity now."""

SLOW = 0.25
"""Seconds after which the next batch no longer waits for the one under way: its connection may be dead."""
MOST_BYTES = 256_000
"""A batch holds no more, unless one write does: what is sent again after a time-out is not much."""
PER_BYTE = 1e-6
"""Seconds that a batch is given for each of its bytes beyond what one is given: 8 Mbit/s."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class Transient(Exception):
    """The batch may go through if it is sent again: lost connection, server starting up."""


class Held(Transient):
    """All were committed but those whose entity somebody else holds."""


class Locked(Transient):
    """One of the batch met somebody else's lock, deadlock or serialization failure; the others need not wait."""


class Unacceptable(Exception):
    """PostgreSQL refuses something in this batch; sending it again as it is can't help."""


class Unstorable(Unacceptable):
    """The reason is what a payload holds, such as a NUL: nothing but another payload can help."""


@dataclass(slots=True, eq=False)
class _Waiting:
    write: Write
    body: str
    failure: str = "no answer"
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit:
    """Gathers writes and commits them in batches.

    Args:
        commit: commits one batch; raises `Transient`, `Locked` or `Unacceptable`.
        most: how many writes a batch may hold; it holds `MOST_BYTES` as well.
        lanes: how many batches are under way at once while PostgreSQL is quick; two are slower (bench/group_commit.py).
    """

    def __init__(self, commit: Commit, *, most: int = 200, lanes: int = 1) -> None:
        self._commit = commit
        self._most = most
        self._lanes = lanes
        self._queue: list[_Waiting] = []
        self._flushers: set[asyncio.Task[None]] = set()
        self._aside: set[asyncio.Task[None]] = set()
        self._company = Company()

    async def write(self, write: Write, *, patience: float) -> Answer:
        """Commit `write` with whatever else is there; see `Store.write` for what it raises."""
        waiting = _Waiting(write, _body(write))
        self._queue.append(waiting)
        self._company.arrived(time.monotonic())
        if sum(not flusher.done() for flusher in self._flushers) < self._lanes:
            _keep(self._flushers, self._flush())
        try:
            async with asyncio.timeout(patience):
                return await waiting.answer
        except TimeoutError:
            raise DatabaseUnavailable(
                f"{write.lifecycle}/{write.id}: not committed by PostgreSQL within {patience:g} s: {waiting.failure}"
            ) from None

    async def close(self) -> None:
        """Wait for what is under way."""
        while tasks := self._flushers | self._aside:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _flush(self) -> None:
        while self._queue:
            await self._gather()
            count = self._fitting()
            batch = sorted(self._queue[:count], key=_by_entity)
            del self._queue[:count]
            await self._send_ahead(batch)

    def _fitting(self) -> int:
        """How many of those that wait go in one batch: one at least."""
        size = 0
        for count, waiting in enumerate(self._queue[: self._most]):
            size += len(waiting.body)
            if count and size > MOST_BYTES:
                return count
        return self._most

    async def _gather(self) -> None:
        if pause := self._company.worth(time.monotonic()):
            before = len(self._queue)
            await asyncio.sleep(pause)
            self._company.brought(len(self._queue) - before, time.monotonic())

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        batch = [each for each in batch if not each.answer.done()]  # a write whose caller has gone never happens
        if not batch:
            return
        for each in batch:
            faults.point("before the commit of", each.write)
        began = time.monotonic()
        try:
            answers = await self._commit([each.body for each in batch])
            self._company.committed(time.monotonic() - began)
        except (Transient, Unacceptable):
            raise
        except BaseException as error:  # a bug, or our own cancellation: nobody may wait for ever
            log.error("a batch of %s writes failed", len(batch), exc_info=error)
            _fail(batch, DatabaseUnavailable(f"the write was not committed: {describe(error)}"))
            raise
        for each, answer in zip(batch, answers, strict=True):
            faults.point("after the commit of", each.write)
            if answer is not None and not each.answer.done():
                each.answer.set_result(answer)
        if None in answers:
            raise Held("another session holds the lock of the entity")

    async def _mend(self, batch: Sequence[_Waiting], sending: Awaitable[None]) -> None:
        """Get as many of a batch through as can be, beside the main lane."""
        pause = _SHORTEST_PAUSE
        while (failure := await _failure_of(sending)) and (batch := [each for each in batch if not each.answer.done()]):
            if len(batch) > 1 and isinstance(failure, Locked):
                self._part(batch)
                return
            if len(batch) > 1 and isinstance(failure, Unacceptable):
                await self._halve(batch)
                return
            if isinstance(failure, Transient):
                for each in batch:
                    each.failure = str(failure)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                _refuse(batch[0], failure)
                return
            sending = self._send(batch)

    def _part(self, batch: Sequence[_Waiting]) -> None:
        """Each alone and at once: halving would let the innocent stand still again with every half."""
        for each in batch:
            sending = asyncio.create_task(self._send([each]), name="perdure group commit")
            _keep(self._aside, self._mend([each], sending))

    async def _halve(self, batch: Sequence[_Waiting]) -> None:
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            await self._send_ahead(half)

    async def _send_ahead(self, batch: Sequence[_Waiting]) -> None:
        """Send it; whatever keeps it from being committed soon is dealt with aside."""
        sending = asyncio.create_task(self._send(batch), name="perdure group commit")
        size = sum(len(each.body) for each in batch)
        await asyncio.wait({sending}, timeout=SLOW + size * PER_BYTE)
        if not sending.done() or sending.exception():
            _keep(self._aside, self._mend(batch, sending))


def _body(write: Write) -> str:
    try:
        return write.model_dump_json(exclude_none=True, context=SEALING)
    except ValueError as error:  # a lone surrogate: it harms nobody else if it is found before it is in a batch
        raise UnstorableWrite(
            f"{write.lifecycle}/{write.id}: it can't be written as JSON: {describe(error)}"
        ) from error


def _by_entity(waiting: _Waiting) -> tuple[str, str, int]:
    return waiting.write.lifecycle, waiting.write.id, waiting.write.version


def _keep(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work, name="perdure group commit")
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _failure_of(sending: Awaitable[None]) -> Transient | Unacceptable | None:
    """What stopped it, if sending it again, or parts of it, can help."""
    try:
        await sending
    except (Transient, Unacceptable) as failure:
        return failure
    except Exception:  # a bug: it was logged, and everybody answered
        return None
    return None


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(error)


def _refuse(waiting: _Waiting, failure: Unacceptable) -> None:
    write = waiting.write
    kind = UnstorableWrite if isinstance(failure, Unstorable) else RefusedWrite
    entity = f"{write.lifecycle}/{write.id}"
    says(log, "PostgreSQL refuses a write", level=logging.ERROR, entity=entity, write=str(write), why=str(failure))
    _fail([waiting], kind(f"{entity}: PostgreSQL refuses it: {failure}"))
