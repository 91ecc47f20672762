"""Random programs that an author could have written."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from perdure.testing.exploring.authoring import Author
from perdure.testing.exploring.programs import BRANCHES, INSIDE


def test_no_lock_is_taken_by_its_holder() -> None:
    """asyncio's lock cannot be taken twice: the run would stand still by its own fault."""
    chains = [chain for seed in range(2000) for chain in _locks(Author(Random(seed), 1.0).program("x").steps)]
    assert any(len(chain) > 1 for chain in chains)
    assert all(len(chain) == len(set(chain)) for chain in chains)


def _locks(program: list[Any], held: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The locks that are held at each step."""
    for word, *arguments in program:
        now = (*held, arguments[0]) if word == "lock" else held
        yield now
        inside = arguments[-1] if word in BRANCHES else [arguments[-1]] if word in INSIDE else []
        for each in inside:
            yield from _locks(each, now)
