"""`Step`: contract of work in the app's own database, or of a computation, that may be repeated without harm.

An effect happens outside, once, and its record stays as long as its entity's. A step leaves no record, so a lifecycle
of years can take thousands of them.
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
    """The second argument of the body of a step.

    Attributes:
        entity: the entity whose lifecycle takes the step. The body is called only if the entity is open in this
            database.
        resources: the value that the app's `lifespan` yielded; None without one.

    Example:
        >>> StepContext(Entity("order", "17")).entity.id
        '17'
    """

    entity: Entity
    resources: Any = None


Takes: TypeAlias = Callable[[In, StepContext], Coroutine[Any, Any, Out]]
"""Body of a step."""


class Step(_Contract[In, Out]):
    """Contract of a step, which runs at least once and is repeated until it succeeds.

    The history holds the result. Put code into a step, and not into `run`, if it depends on the database, the date, or
    a library's rules for daylight saving.

    Args:
        name: activity type in Temporal; a-z 0-9 _ -.
        timeout: the longest duration of one call.
        aliases: former names, the first one first; open runs still use them.

    Example:
        >>> TOTAL = Step[list[int], int]("total")
        >>> @TOTAL.takes
        ... async def total(prices: list[int], context: StepContext) -> int:
        ...     return sum(prices)
    """

    def __init__(self, name: str, *, timeout: timedelta = timedelta(seconds=5), aliases: tuple[str, ...] = ()) -> None:
        # In the workflow task first. If that fails, an activity waits, without growing the history.
        super().__init__(name, timeout=timeout, inline=True, task_queue=None, aliases=aliases)

    def takes(self, body: Takes[In, Out]) -> Takes[In, Out]:
        """Bind a body to this step (decorator).

        After any exception the step is repeated, after a pause. To report a definite no, return a value.
        """
        return _mark(body, self)


def step(
    *, timeout: timedelta = timedelta(seconds=5), name: str | None = None, aliases: tuple[str, ...] = ()
) -> Callable[[Callable[[In, StepContext], Coroutine[Any, Any, Out]]], Step[In, Out]]:
    """Declare a step by its body (decorator): name, input and result are the function's, as with `effect`.

    Args:
        timeout: the longest duration of one call.
        name: None = the function's, with `-` for `_`.
        aliases: former names, the first one first.

    Raises:
        DeclarationError: the function has no type hints. Raised when the lifecycle's class is made.

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
