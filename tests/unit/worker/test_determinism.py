"""A lifecycle that is not deterministic is refused by name, file and line; one that is, is not."""

from __future__ import annotations

import inspect
import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import workflow

from perdure import App, Lifecycle, PerdurePlugin
from perdure._worker.determinism import Unreadable, check
from perdure.errors import DeclarationError
from tests.apps import irregular
from tests.apps.irregular import Stage
from tests.apps.stepping import app as stepping

LINES = inspect.getsource(irregular).splitlines()
BY_WAY_OF = {"Indirect": "_second", "AModel": "Watch"}
IRREGULAR = [
    each
    for each in vars(irregular).values()
    if isinstance(each, type) and issubclass(each, Lifecycle) and each is not Lifecycle
]


def test_there_are_more_than_twenty() -> None:
    assert len(IRREGULAR) > 20


@pytest.mark.parametrize("lifecycle", IRREGULAR, ids=lambda each: each.__name__)
def test_the_line_and_what_to_use_instead_are_named(lifecycle: type[Lifecycle[Any, Any]]) -> None:
    holder = getattr(irregular, BY_WAY_OF.get(lifecycle.__name__, lifecycle.__name__))
    text, first = inspect.getsourcelines(holder)
    [(number, line)] = [(first + at, line) for at, line in enumerate(text) if "# refused: " in line]
    with pytest.raises(DeclarationError) as refused:
        check(lifecycle)
    assert f"{lifecycle.__name__} is not deterministic: {irregular.__file__}:{number}: " in str(refused.value)
    assert line.partition("# refused: ")[2].partition("  #")[0].strip() in str(refused.value)


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
