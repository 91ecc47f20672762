"""Checks the arguments that the author's code gives to a lifecycle, so that a mistake gets one error that names it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import CoroutineType
from typing import Any, TypeVar, cast

from perdure._workflow.author import Author
from perdure.errors import DeclarationError

T = TypeVar("T")


def state_name(lifecycle: type[Author], state: Any) -> str:
    """The name of a state that was given as a member of the lifecycle's enum.

    Raises:
        DeclarationError: it is no member of an enum. A plain text is none either.
    """
    if isinstance(name := getattr(state, "value", None), str):
        return name
    declared = lifecycle.declared
    meant = next((each.name for each in declared if each.name == state), declared.initial)
    raise DeclarationError(
        f"{lifecycle.__name__}: the state {state!r} is of type {type(state).__name__}: give a member of the enum, "
        f"such as {type(meant).__name__}.{meant.name}"
    )


def check_time(whose: str, when: datetime | None) -> None:
    """Refuse a time without a time zone, because it cannot be compared with the workflow's.

    Raises:
        DeclarationError: it has none, or is no time.
    """
    if when is None:
        return
    offset = getattr(when, "utcoffset", None)
    if offset is None or offset() is None:
        raise DeclarationError(
            f"{whose}: {when!r} is no time with a time zone: give one, such as workflow.now() + timedelta(hours=1)"
        )


def check_why(whose: str, why: str | None) -> None:
    """Refuse a reason that is no text. The error has only its type, because the rest may be personal.

    Raises:
        DeclarationError: it is none.
    """
    if why is not None and not hasattr(why, "encode"):
        raise DeclarationError(f"{whose}: why= is of type {type(why).__name__}: give a str without personal data")


def answer_of(whose: str, function: Callable[[], T]) -> T:
    """The answer of a function of the author's that is called, and not awaited.

    Raises:
        DeclarationError: it is async, so its coroutine would count as the answer; or it is no function.
    """
    given: Any = function
    answer: Any = given() if callable(given) else given
    if isinstance(answer, CoroutineType):
        answer.close()
        name = getattr(given, "__qualname__", repr(given))
        raise DeclarationError(f"{whose}: {name} is async, and is not awaited: give a function without `async`")
    if not callable(given):
        raise DeclarationError(f"{whose}: {given!r} is no function: give one, such as `lambda: self.paid`")
    return cast(T, answer)
