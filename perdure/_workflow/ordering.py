"""The order in which the code of a run continues. Gives its tasks hashes that a replay repeats.

`asyncio.TaskGroup` and `asyncio.wait` keep their tasks in sets. The order of a set depends on the hashes of its
members, and that of a task is its address in memory: a replay could cancel the branches of a task group in another
order than the run has, so its commands would differ from the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from itertools import count
from typing import Any, Self

from temporalio import workflow

from perdure._workflow.leaving import until

OTHERS_BEGIN_FIRST = "perdure: other branches begin before an end is ordered"


class _Numbered(asyncio.Task[Any]):
    """A task whose hash is its number."""

    _number: int

    def __new__(cls, number: int, *args: Any, **more: Any) -> Self:  # `__init__` of the base class needs the hash
        task = super().__new__(cls)
        task._number = number
        return task

    def __init__(self, number: int, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number


def order_tasks(loop: Any) -> None:
    """Number the tasks that code of a run creates.

    The SDK creates tasks as well, also for queries, of which the history holds nothing. It does so outside of any task,
    so these get no number.

    Args:
        loop: the loop of the run, which is the SDK's workflow instance.
    """
    create, register, numbers = loop.create_task, getattr(loop, "_register_task", None), count(1)
    if register is None:  # a version of the SDK that keeps its tasks elsewhere: the order is that of addresses
        return

    def create_task(
        code: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        if asyncio.current_task(loop) is None:
            task: asyncio.Task[Any] = create(code, name=name, context=context)
            return task
        numbered = _Numbered(next(numbers), code, loop=loop, context=context)
        register(numbered, name=name)
        return numbered

    loop.create_task = create_task


async def let_others_begin() -> None:
    """Before an end is ordered, let the branches that are about to perform effects begin them, as those of a `gather`
    do: the end has to wait for them."""
    if _others_are_ready() and workflow.patched(OTHERS_BEGIN_FIRST):
        await until(lambda: True)


def _others_are_ready() -> bool:
    """Whether other code of the run continues before the run waits: no, if the SDK keeps that elsewhere."""
    return bool(getattr(asyncio.get_running_loop(), "_ready", ()))
