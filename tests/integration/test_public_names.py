"""What `perdure` exports: few names, each documented by an example that runs."""

from __future__ import annotations

import asyncio
import doctest
import importlib
from types import ModuleType
from typing import Any

import pytest

import perdure
from tests.world import World

MOST = 35
"""Names: more than these nobody learns."""
CLIENTS = ("Client", "SyncClient")
"""Their examples need a database."""


def _example(name: str) -> doctest.DocTest:
    thing: Any = getattr(perdure, name)
    module: ModuleType = importlib.import_module(thing.__module__)
    return doctest.DocTestParser().get_doctest(thing.__doc__ or "", dict(vars(module)), name, module.__file__, 0)


def test_few_names_are_exported() -> None:
    assert len(perdure.__all__) <= MOST
    assert sorted(perdure.__all__) == sorted(set(perdure.__all__))


@pytest.mark.parametrize("name", perdure.__all__)
def test_each_name_has_an_example(name: str) -> None:
    assert _example(name).examples, f"the docstring of {name} has no example"


@pytest.mark.parametrize("name", sorted({*perdure.__all__} - {*CLIENTS}))
def test_each_example_runs(name: str) -> None:
    told: list[str] = []
    assert doctest.DocTestRunner().run(_example(name), out=told.append).failed == 0, "".join(told)


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_example_of_a_client_runs(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", world.config.database_url)
    told: list[str] = []

    def run() -> int:
        return doctest.DocTestRunner().run(_example(name), out=told.append).failed

    assert await asyncio.to_thread(run) == 0, "".join(told)
