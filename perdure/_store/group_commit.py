"""Group commit: writes of one process that arrive together are committed together.

While one batch is under way, the next one collects writes. A lone write goes at once, and no write waits for others
while commits are fast (see `batch_wait`). A batch is sorted by entity, and is committed whole or not at all. If
PostgreSQL refuses a batch, it is halved until the bad write stands alone, beside the other writes (invariant 8).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from perdure import _faults as faults
from perdure._crypto.private import SEALING
from perdure._store.batch_wait import BatchWait
from perdure._text.privacy import describe
from perdure._wire.writes import Answer, Write
from perdure.errors import DatabaseUnavailable, RefusedWrite, UnstorableWrite
from perdure.logs import log_event

log = logging.getLogger("perdure.store")

Commit = Callable[[Sequence[str]], Awaitable[Sequence[str | None]]]
"""Commits a batch of writes in JSON and answers each in JSON; None = another session holds the lock of the entity."""

SLOW = 0.25
"""Seconds after which the next batch no longer waits for the one under way: its connection may be dead."""
MOST_BYTES = 256_000
"""Bytes of a batch at most, unless one write has more. So little is sent again after a time-out."""
PER_BYTE = 1e-6
"""Additional seconds for each byte of a batch: 8 Mbit/s."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class Transient(Exception):
    """The batch may go through if it is sent again: lost connection, server starting up."""


class Held(Transient):
    """All writes were committed, except those whose entity another session holds."""


class Locked(Transient):
    """A write of the batch met another session's lock, a deadlock or a serialization failure. The others need not
    wait."""


class ReadOnly(Transient):
    """The server takes no writes: it is a standby, or is set to be read-only."""


class Unacceptable(Exception):
    """PostgreSQL refuses a write of this batch. Sending the same batch again cannot help."""


class Unstorable(Unacceptable):
    """The reason is the content of a payload, such as a NUL: only another payload can help."""


@dataclass(slots=True, eq=False)
class _Waiting:
    write: Write
    body: str
    failure: str = "no answer"
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit:
    """Collects writes and commits them in batches.

    Args:
        commit: commits one batch; raises `Transient`, `Locked` or `Unacceptable`.
        most: writes of a batch at most; `MOST_BYTES` limits it as well.
        lanes: batches under way at once while PostgreSQL is quick; two are slower (bench/group_commit.py).
    """

    def __init__(self, commit: Commit, *, most: int = 200, lanes: int = 1) -> None:
        self._commit = commit
        self._most = most
        self._lanes = lanes
        self._queue: list[_Waiting] = []
        self._flushers: set[asyncio.Task[None]] = set()
        self._aside: set[asyncio.Task[None]] = set()
        self._batch_wait = BatchWait()

    async def write(self, write: Write, *, patience: float) -> Answer:
        """Commit `write` together with other waiting writes; raises as `Store.write`."""
        waiting = _Waiting(write, _body(write))
        self._queue.append(waiting)
        self._batch_wait.note_write(time.monotonic())
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
        """Wait for the batches under way."""
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
        """Number of waiting writes for one batch: one at least."""
        size = 0
        for count, waiting in enumerate(self._queue[: self._most]):
            size += len(waiting.body)
            if count and size > MOST_BYTES:
                return count
        return self._most

    async def _gather(self) -> None:
        if pause := self._batch_wait.seconds(time.monotonic()):
            before = len(self._queue)
            await asyncio.sleep(pause)
            self._batch_wait.note_gain(len(self._queue) - before, time.monotonic())

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        batch = [each for each in batch if not each.answer.done()]  # a write whose caller is gone never happens
        if not batch:
            return
        for each in batch:
            faults.point("before the commit of", each.write)
        began = time.monotonic()
        try:
            answers = await self._commit([each.body for each in batch])
            self._batch_wait.note_commit(time.monotonic() - began)
        except (Transient, Unacceptable):
            raise
        except BaseException as error:  # a bug, or our own cancellation: no caller may wait for ever
            log.error("a batch of %s writes failed", len(batch), exc_info=error)
            _fail(batch, DatabaseUnavailable(f"the write may not have been committed: {describe(error)}"))
            raise
        for each, answer in zip(batch, answers, strict=True):
            faults.point("after the commit of", each.write)
            if answer is not None and not each.answer.done():
                _answer(each, answer)
        if None in answers:
            raise Held("another session holds the lock of the entity")

    async def _mend(self, batch: Sequence[_Waiting], sending: Awaitable[None]) -> None:
        """Commit as many writes of a batch as possible, beside the main lane."""
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
        """Commit each write alone and at once: with halves, good writes would wait again for each half."""
        for each in batch:
            sending = asyncio.create_task(self._send([each]), name="perdure group commit")
            _keep(self._aside, self._mend([each], sending))

    async def _halve(self, batch: Sequence[_Waiting]) -> None:
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            await self._send_ahead(half)

    async def _send_ahead(self, batch: Sequence[_Waiting]) -> None:
        """Send the batch. Anything that delays its commit is handled beside the main lane."""
        sending = asyncio.create_task(self._send(batch), name="perdure group commit")
        size = sum(len(each.body) for each in batch)
        await asyncio.wait({sending}, timeout=SLOW + size * PER_BYTE)
        if not sending.done() or sending.exception():
            _keep(self._aside, self._mend(batch, sending))


def _body(write: Write) -> str:
    try:
        return write.model_dump_json(exclude_none=True, context=SEALING)
    except ValueError as error:  # a lone surrogate: found before it is in a batch, it harms no other write
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
    """The obstacle, if sending the batch, or parts of it, again can help."""
    try:
        await sending
    except (Transient, Unacceptable) as failure:
        return failure
    except Exception:  # a bug, which was logged, and all callers have an answer
        return None
    return None


def _answer(waiting: _Waiting, answer: str) -> None:
    """Give the caller its answer. One that cannot be read fails no other write of the batch."""
    try:
        waiting.answer.set_result(Answer.model_validate_json(answer))
    except ValidationError as error:
        entity = f"{waiting.write.lifecycle}/{waiting.write.id}"
        log_event(log, "an answer can't be read", level=logging.ERROR, entity=entity, why=describe(error))
        why = f"{entity}: PostgreSQL has committed the write, and its answer can't be read: {describe(error)}"
        _fail([waiting], DatabaseUnavailable(why))


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(error)


def _refuse(waiting: _Waiting, failure: Unacceptable) -> None:
    write = waiting.write
    kind = UnstorableWrite if isinstance(failure, Unstorable) else RefusedWrite
    entity = f"{write.lifecycle}/{write.id}"
    log_event(log, "PostgreSQL refuses a write", level=logging.ERROR, entity=entity, write=str(write), why=str(failure))
    _fail([waiting], kind(f"{entity}: PostgreSQL refuses it: {failure}"))
