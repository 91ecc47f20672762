"""The benchmark on a few runs: it gives every figure, and what it counts keeps within its gates."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import pytest_asyncio

from bench.cost.figures import KEYS, Verdict, figures, ratios, spread, targets
from bench.cost.measure import Plan, Round, measure
from bench.cost.report import Result, write
from bench.cost.rig import WAYS, rig

FEW = Plan(rounds=1, runs=10, in_flight=10, trickle=3, every=0.1, durable=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured() -> dict[str, list[Round]]:
    """One short round of each way, all at once: what is counted by workflow and by database stays apart."""
    async with rig(durable=False) as made:
        rounds = await asyncio.gather(*(measure(made, way, FEW) for way in WAYS))
    return {way: [found] for way, found in zip(WAYS, rounds, strict=True)}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_has_every_figure(measured: dict[str, list[Round]], way: str) -> None:
    found = figures(measured[way])
    assert tuple(found) == KEYS
    # A database that nobody uses may take no measurable time.
    assert [key for key in KEYS if found[key] <= 0 and not (way == "floor" or key.startswith("db_cpu"))] == []


@pytest.mark.parametrize(("way", "events"), [("activity", 12), ("inline", 7), ("floor", 5)])
def test_a_run_has_no_more_history_than_promised(measured: dict[str, list[Round]], way: str, events: int) -> None:
    assert figures(measured[way])["history_events"] <= events


@pytest.mark.parametrize("way", ["activity", "inline"])
def test_a_run_writes_its_state_at_most_three_times(measured: dict[str, list[Round]], way: str) -> None:
    assert 0 < figures(measured[way])["db_writes_per_run"] <= 3


def test_the_sample_does_what_it_is_there_for(measured: dict[str, list[Round]]) -> None:
    found = figures(measured["sample"])
    assert (found["history_events"], found["db_writes_per_run"]) == (23, 2)


def test_what_is_written_holds_all_that_a_reader_looks_for(measured: dict[str, list[Round]], tmp_path: Path) -> None:
    ways = {way: figures(found) for way, found in measured.items()}
    ratio = ratios(measured)
    gates = [Verdict.at_most("a gate", 3, 2)]
    spreads = {way: spread(found) for way, found in measured.items()}
    write(Result(ways, spreads, ratio, gates, targets(ratio), FEW), tmp_path)
    content = json.loads((tmp_path / "bench.json").read_text())
    assert set(content) == {*WAYS, "ratios", "gates", "targets", "machine", "versions", "settings"}
    assert set(content["inline"]) == {*KEYS, "spread"}
    assert content["gates"] == {"a gate": {"value": 3, "wanted": "<= 2", "met": False}}
    assert "plotly" in (tmp_path / "bench.html").read_text()[:100_000].lower()
