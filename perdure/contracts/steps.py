"""`Step`: contract of what a lifecycle does inside the app's own database, or computes, as often as need be.

An effect happens outside, once, and is on record for as long as its entity is. A step may be taken twice without harm:
its writes are no-ops the second time. It leaves no record, so that a lifecycle of years takes thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from perdure.contracts.effects import _Contract, _declare, _mark
from perdure.contracts.keys import Entity

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the body of a step is given beside its input.

    Attributes:
        entity: whose lifecycle takes it. The database knows it as open, or the body is not called.
        resources: what the app's `lifespan` yielded; None without one.

    Example:
        >>> StepContext(Entity("order", "17")).entity.id
        '17'
    """

    entity: Entity
    resources: Any = None


Takes: TypeAlias = Callable[[In, StepContext], Coroutine[Any, Any, Out]]
"""Body of a step."""


class Step(_Contract[In, Out]):
    """Contract of a step: at least once, and taken again until it succeeds.

    What it returns stands in the history: so what depends on the outside (the database, the date, a library's idea of
    daylight saving) belongs into a step and not into `run`.

    Args:
        name: activity type in Temporal; a-z 0-9 _ -.
        timeout: how long it may take.
        aliases: names that it had before, the first one first; runs that are open still call it by them.

    Example:
        >>> TOTAL = Step[list[int], int]("total")
        >>> @TOTAL.takes
        ... async def total(prices: list[int], context: StepContext) -> int:
        ...     return sum(prices)
    """

    def __init__(self, name: str, *, timeout: timedelta = timedelta(seconds=5), aliases: tuple[str, ...] = ()) -> None:
        # In the workflow task: where that fails, it waits as an activity, without growing the history.
        super().__init__(name, timeout=timeout, inline=True, task_queue=None, aliases=aliases)

    def takes(self, body: Takes[In, Out]) -> Takes[In, Out]:
        """Bind a body to this step (decorator).

        Whatever it raises means that it is taken again, after a pause. A definitive no is a value that it returns.
        """
        return _mark(body, self)


def step(
    *, timeout: timedelta = timedelta(seconds=5), name: str | None = None, aliases: tuple[str, ...] = ()
) -> Callable[[Callable[[In, StepContext], Coroutine[Any, Any, Out]]], Step[In, Out]]:
    """Declare a step by its body (decorator): name, input and result are the function's, as with `effect`.

    Args:
        timeout: how long it may take.
        name: None = the function's, with `-` for `_`.
        aliases: names that it had before, the first one first.

    Raises:
        DeclarationError: when the lifecycle is made: the function has no types.

    Example:
        >>> @step()
        ... async def add_up(prices: list[int], context: StepContext) -> int:
        ...     return sum(prices)
        >>> add_up
        Step('add-up')
    """
    named = {} if name is None else {"name": name}

    def declare(body: Takes[In, Out]) -> Step[In, Out]:
        return _declare(body, Step, timeout=timeout, aliases=aliases, **named)

    return declare
