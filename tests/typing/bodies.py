"""What `@effect`, `@lookup` and `@step` make of a typed function. For the type checker; each line marked
as a mistake has to be one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from perdure import (
    AskFirst,
    Attempt,
    Dedupe,
    Effect,
    Lookup,
    LookupContext,
    Repeat,
    Step,
    StepContext,
    effect,
    lookup,
    step,
)


@lookup()
async def find_charge(cents: int, context: LookupContext) -> str | None:
    return None


@effect(timeout=timedelta(seconds=1), doubt=AskFirst(find_charge, visibility_delay=timedelta(seconds=1)))
async def charge(cents: int, attempt: Attempt) -> str:
    return "1"


@effect(timeout=timedelta(seconds=1), doubt=Dedupe(window=timedelta(hours=1)), inline=True)
async def reserve(item: str, attempt: Attempt) -> bool:
    return True


@step(timeout=timedelta(seconds=1))
async def add_up(prices: list[int], context: StepContext) -> int:
    return sum(prices)


assert_type(find_charge, Lookup[int, str])
assert_type(charge, Effect[int, str])
assert_type(reserve, Effect[str, bool])
assert_type(add_up, Step[list[int], int])


@effect(timeout=timedelta(seconds=1), doubt=AskFirst(find_charge, visibility_delay=timedelta(seconds=1)))  # type: ignore[arg-type]
async def of_another_input(item: str, attempt: Attempt) -> str:
    return "1"


@effect(timeout=timedelta(seconds=1), doubt=Repeat())  # type: ignore[arg-type]
async def without_an_attempt(item: str) -> str:
    return "1"


@effect(timeout=timedelta(seconds=1), doubt=Repeat(), heartbeat=timedelta(seconds=1))  # type: ignore[call-overload,untyped-decorator]
async def with_an_unknown_term(item: str, attempt: Attempt) -> str:
    return "1"
