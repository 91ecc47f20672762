"""The benchmark on a few runs: it gives every figure, and what it counts keeps within its gates."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from bench.cost.figures import CROWD, KEYS, figures
from bench.cost.measure import PINNED, Plan, Round, measure
from bench.cost.pinning import cores, pinned
from bench.cost.report import write
from bench.cost.result import Result
from bench.cost.rig import SERVERS, rig
from bench.cost.tables import markdown, markdown_of_all, replaced
from bench.cost.ways import WAYS, present
from tests.deadline import until

OF_TEMPORAL = [way for way in WAYS if WAYS[way].temporal]
FEW = Plan(rounds=1, runs=10, in_flight=10, trickle=3, every=0.1, durable=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured() -> dict[str, list[Round]]:
    """One short round of each way, all at once: what is counted by workflow and by database stays apart."""
    async with rig(durable=False) as made:
        ways = present()  # DBOS too, where `make bench` has made its environment
        rounds = await asyncio.gather(*(measure(made, way, "dev", FEW) for way in ways))
    return {way: [found] for way, found in zip(ways, rounds, strict=True)}


@pytest.mark.parametrize("way", OF_TEMPORAL)
def test_each_way_has_every_figure(measured: dict[str, list[Round]], way: str) -> None:
    found = figures(measured[way])
    assert tuple(found) == KEYS
    # A database that nobody uses may take no measurable time, and nothing else may run on the machine.
    free = [key for key in KEYS if found[key] <= 0 and not key.startswith("db_cpu") and key != "other_cores"]
    assert not free or way == "floor"
    assert all(found[key] > 0 for each in CROWD for key in (each, f"{each}{PINNED}") if not each.startswith("db_cpu"))


@pytest.mark.parametrize(("way", "events"), [("activity", 12), ("inline", 7), ("floor", 5)])
def test_a_run_has_no_more_history_than_promised(measured: dict[str, list[Round]], way: str, events: int) -> None:
    assert figures(measured[way])["history_events"] <= events


@pytest.mark.parametrize("way", ["activity", "inline"])
def test_a_run_writes_its_state_at_most_three_times(measured: dict[str, list[Round]], way: str) -> None:
    assert 0 < figures(measured[way])["db_writes_per_run"] <= 3


def test_the_sample_does_what_it_is_there_for(measured: dict[str, list[Round]]) -> None:
    found = figures(measured["sample"])
    assert (found["history_events"], found["db_writes_per_run"]) == (23, 2)


def test_the_report_has_every_figure(measured: dict[str, list[Round]], tmp_path: Path) -> None:
    result = Result({"dev": measured, "real": measured}, {"activity": 110, "inline": 25}, FEW)
    write(result, tmp_path)
    content = json.loads((tmp_path / "bench.json").read_text())
    assert set(content) == {"servers", "ratios", "gates", "targets", "machine", "versions", "settings"}
    assert set(KEYS) < set(content["servers"]["real"]["inline"])
    broken = [name for name, gate in content["gates"].items() if not gate["met"]]
    assert broken == ["our transactions a second at 200 in flight, commits of 5 ms, activity"]
    assert set(content["targets"]) == {"dev", f"dev{PINNED}", "real", f"real{PINNED}"}
    assert "inline: ms at 5 starts/s, p50" in content["targets"]["dev"]
    html = (tmp_path / "bench.html").read_text()
    assert html.count('class="plotly-graph-div"') == 4
    assert "Perdure, inline" in html
    page = replaced("before\n<!-- bench -->\nthe table before\n<!-- /bench -->\nafter\n", markdown(result))
    assert page.startswith("before\n<!-- bench -->\n\nMeasured on ")
    assert page.endswith("|\n\n<!-- /bench -->\nafter\n")
    assert "the table before" not in page
    for title in ("Counted", *(f"Timed: {SERVERS[server]}; medians (least - most)" for server in SERVERS), "Must hold"):
        assert f"**{title}**\n\n|  | " in markdown_of_all(result)


async def test_pinned_processes_stay_on_their_cores_with_all_their_threads() -> None:
    on = cores()
    assert on is not None
    before = os.sched_getaffinity(0)
    code = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start(); input()"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE)
    try:
        await until(lambda: len(_affinities(process.pid)) == 2, "the thread")
        with pinned(on, [process.pid], []):
            assert _affinities(process.pid) == [{on[0]}, {on[0]}]
        assert _affinities(process.pid) == [before, before]
    finally:
        process.kill()
        await process.wait()


def _affinities(pid: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(each.name)) for each in Path(f"/proc/{pid}/task").glob("*")]
