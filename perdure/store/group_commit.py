"""Group commit: writes of one process that arrive together are committed together.

While one batch is under way the next one gathers; nothing ever waits for company, so a lone write goes at
once. A batch is sorted by entity (unsorted ones deadlock) and is all or nothing; when PostgreSQL refuses it,
it is halved until the culprit stands alone, beside the others and not in their way (invariant 8).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.errors import DatabaseUnavailable, UnstorableWrite
from perdure.store.writes import Answer, Write

Commit = Callable[[Sequence[Write]], Awaitable[list[Answer]]]
"""Commits a batch, all or nothing, and answers each write."""


class Transient(Exception):
    """The batch may go through if it is sent again: lost connection, server starting up."""


class Locked(Transient):
    """One of the batch met somebody else's lock, deadlock or serialization failure; the others need not wait."""


class Unacceptable(Exception):
    """PostgreSQL refuses something in this batch; sending it again as it is can't help."""


@dataclass(slots=True, eq=False)
class _Waiting:
    write: Write
    until: float
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit:
    """Gathers writes and commits them in batches.

    Args:
        commit: commits one batch; raises `Transient`, `Locked` or `Unacceptable`.
        most: how many writes a batch may hold.
    """

    def __init__(self, commit: Commit, *, most: int = 200) -> None:
        self._commit = commit
        self._most = most
        self._queue: list[_Waiting] = []
        self._flusher: asyncio.Task[None] | None = None
        self._aside: set[asyncio.Task[None]] = set()

    async def write(self, write: Write, *, patience: float) -> Answer:
        """Commit `write` with whatever else is there; see `Store.write` for what it raises."""
        waiting = _Waiting(write, time.monotonic() + patience)
        self._queue.append(waiting)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush(), name="perdure group commit")
        try:
            return await waiting.answer
        finally:
            if waiting in self._queue:  # its caller was cancelled before it was sent: it never happened
                self._queue.remove(waiting)

    async def close(self) -> None:
        """Wait for what is under way."""
        tasks = [task for task in (self._flusher, *self._aside) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _flush(self) -> None:
        while self._queue:
            batch = sorted(self._queue[: self._most], key=_by_entity)
            del self._queue[: self._most]
            try:
                await self._send(batch)
            except (Transient, Unacceptable) as trouble:
                self._aside_with(self._mend(batch, trouble))

    async def _send(self, batch: list[_Waiting]) -> None:
        batch = [each for each in batch if not each.answer.done()]
        if not batch:
            return
        try:
            answers = await self._commit([each.write for each in batch])
        except (Transient, Unacceptable):
            raise
        except BaseException as error:  # a bug, or our own cancellation: nobody may wait for ever
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(DatabaseUnavailable(f"the write was not committed: {error!r}"))
            raise
        for each, answer in zip(batch, answers, strict=True):
            if not each.answer.done():
                each.answer.set_result(answer)

    def _aside_with(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="perdure group commit, aside")
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _mend(self, batch: list[_Waiting], trouble: Exception) -> None:
        """Get as many of a failed batch through as can be, beside the main lane."""
        pause = 0.02
        while batch := [each for each in batch if not each.answer.done()]:
            if len(batch) > 1 and isinstance(trouble, (Locked, Unacceptable)):
                await self._halve(batch)
                return
            if isinstance(trouble, Unacceptable):
                if not _without_column(batch[0], trouble):
                    return
            else:
                _give_up_on_late(batch, trouble)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.5)
            try:
                await self._send(batch)
            except (Transient, Unacceptable) as again:
                trouble = again

    async def _halve(self, batch: list[_Waiting]) -> None:
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            try:
                await self._send(half)
            except (Transient, Unacceptable) as trouble:
                self._aside_with(self._mend(half, trouble))


def _by_entity(waiting: _Waiting) -> tuple[str, str, int]:
    return waiting.write.lifecycle, waiting.write.id, waiting.write.version


def _without_column(waiting: _Waiting, trouble: Unacceptable) -> bool:
    """Set the culprit up to go without its app column, since the app's own CHECK may be the reason; else fail it."""
    write = waiting.write
    if write.column is not None and write.column_error is None:
        waiting.write = write.model_copy(update={"column_error": str(trouble)[:500]})
        return True
    waiting.answer.set_exception(UnstorableWrite(f"{write.lifecycle}/{write.id}: PostgreSQL says: {trouble}"))
    return False


def _give_up_on_late(batch: list[_Waiting], trouble: Exception) -> None:
    now = time.monotonic()
    for each in batch:
        if now >= each.until and not each.answer.done():
            each.answer.set_exception(DatabaseUnavailable(f"PostgreSQL did not commit the write in time: {trouble}"))
