"""A lifecycle that is not deterministic is refused by name, file and line; one that is, is not."""

from __future__ import annotations

import inspect
import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from temporalio import workflow

from perdure import App, Lifecycle, PerdurePlugin
from perdure._worker.determinism import Unreadable, check
from perdure.errors import DeclarationError
from tests.apps import irregular, unawaited
from tests.apps.irregular import Stage
from tests.apps.stepping import app as stepping

BY_WAY_OF = {"Indirect": "_second", "AModel": "Watch"}


def lifecycles_of(module: ModuleType) -> list[type[Lifecycle[Any, Any]]]:
    """The lifecycles that a module defines."""
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Lifecycle) and each is not Lifecycle
    ]


IRREGULAR = lifecycles_of(irregular)


def test_there_are_more_than_twenty() -> None:
    assert len(IRREGULAR) > 20


@pytest.mark.parametrize("lifecycle", IRREGULAR, ids=lambda each: each.__name__)
def test_the_line_and_what_to_use_instead_are_named(lifecycle: type[Lifecycle[Any, Any]]) -> None:
    holder = getattr(irregular, BY_WAY_OF.get(lifecycle.__name__, lifecycle.__name__))
    where, instead = refused_line(holder)
    with pytest.raises(DeclarationError) as refused:
        check(lifecycle)
    assert f"{lifecycle.__name__} is not deterministic: {where}: " in str(refused.value)
    assert instead in str(refused.value)


@pytest.mark.parametrize(
    "lifecycle",
    [each for each in lifecycles_of(unawaited) if each is not unawaited.Awaits],
    ids=lambda each: each.__name__,
)
def test_a_forgotten_await_is_refused_with_its_line(lifecycle: type[Lifecycle[Any, Any]]) -> None:
    where, instead = refused_line(lifecycle)
    with pytest.raises(DeclarationError) as refused:
        check(lifecycle)
    assert f"{lifecycle.__name__} forgets an await: {where}: " in str(refused.value)
    assert instead in str(refused.value)


def test_a_coroutine_that_is_awaited_later_is_not_refused() -> None:
    check(unawaited.Awaits)


def refused_line(holder: Any) -> tuple[str, str]:
    """File and line of the code that is refused, and what to use instead, by the comment there."""
    text, first = inspect.getsourcelines(holder)
    [(number, line)] = [(first + at, line) for at, line in enumerate(text) if "# refused: " in line]
    instead = line.partition("# refused: ")[2].partition("  #")[0].strip()
    return f"{inspect.getsourcefile(holder)}:{number}", instead


RATES = {"book": 7}
NAMES = ["ann"]


@workflow.defn(name="regular")
class Regular(Lifecycle[str, Stage]):
    """What is deterministic, though it resembles what is not."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.counts = Counter[str]()

    @workflow.run
    async def run(self, given: str) -> None:
        names, time = list(NAMES), workflow.time()
        names.append(given)
        self.seen.append(given)
        self.counts[given] += RATES[given]
        draw = random.Random(7).random() + workflow.random().random()
        number = uuid.UUID(int=int(draw))
        late = workflow.now() - datetime(2026, 1, 1, tzinfo=UTC) > timedelta(days=1)
        with workflow.unsafe.sandbox_unrestricted():
            datetime.now(UTC)
        open = {"a": 1}
        await self.enter(Stage.DONE, why=f"{names} {time} {number} {late} {open.get('a')}")


@pytest.mark.parametrize("lifecycle", [Regular, *stepping.lifecycles.values()], ids=lambda each: each.__name__)
def test_deterministic_code_is_not_refused(lifecycle: type[Lifecycle[Any, Any]]) -> None:
    check(lifecycle)


def test_a_lifecycle_without_source_is_reported_as_such() -> None:
    names: dict[str, Any] = {"__name__": "nowhere", "Lifecycle": Lifecycle, "Stage": Stage, "workflow": workflow}
    code = "class Made(Lifecycle[str, Stage]):\n @workflow.run\n async def run(self, given: str): pass\n"
    exec(code, names)
    with pytest.raises(Unreadable):
        check(names["Made"])


def test_a_worker_refuses_it_before_it_starts() -> None:
    plugin = PerdurePlugin(App([irregular.Clock], []))
    with pytest.raises(DeclarationError, match=r"use workflow.time\(\)"):
        plugin._runner(None)
