"""The plan of a chaos run is a function of its seed, and includes every kind of fault."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chaos.other_side import MOODS, WORSE, OtherSide
from tests.chaos.plan import GENERATED, KINDS, LONGEST_FREEZE, OF_APP, OF_RELAY, OF_TEMPORAL, SHAPES, make_plan

REPOSITORY = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.chaos", "--seed", "7", "--minutes", "1", "--plan"]


def test_the_same_seed_gives_the_same_plan_in_another_process() -> None:
    """In another process, since hashes of strings differ there."""
    said = subprocess.run(COMMAND, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()

    assert said == [str(fault) for fault in make_plan(7, 60, 2000).faults]
    assert make_plan(7, 60, 100) == make_plan(7, 60, 100)


@pytest.mark.parametrize("command", ["tests.chaos", "tests.applications.reminders.chaos"])
def test_a_command_can_set_the_runtime_of_its_process(command: str) -> None:
    """The conftest of the tests sets it too, so a command that imported it would end before its first lifecycle."""
    script = f"""
import {command}.__main__
from infra.quiet import quiet_runtime
from temporalio.runtime import Runtime
Runtime.set_default(quiet_runtime())
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr


def test_another_seed_gives_another_plan() -> None:
    one, other = make_plan(1, 60, 100), make_plan(2, 60, 100)
    assert one.starts != other.starts
    assert one.faults != other.faults


def test_the_other_side_has_the_same_moods_for_the_same_seed() -> None:
    keys = [f"lookup/{number}/do-lookup" for number in range(200)]
    moods = [[OtherSide(seed).mood(key, 1) for key in keys] for seed in (1, 1, 2)]
    assert moods[0] == moods[1] != moods[2]
    assert set(moods[0]) == set(MOODS)
    assert {OtherSide(1).mood(f"{GENERATED}/{number}/escalate/p1", 1) for number in range(200)} == set(WORSE)


def test_every_kind_of_fault_comes_before_any_comes_again() -> None:
    for seed in range(20):
        kinds = Counter(fault.kind for fault in make_plan(seed, 3.0 * 2 * len(SHAPES), 10).faults)
        assert kinds == dict.fromkeys(SHAPES, 2)


def test_in_a_long_run_each_connection_is_lost_in_silence_and_each_host_vanishes() -> None:
    for seed in range(20):
        hits = defaultdict(set)
        for fault in make_plan(seed, 240, 10).faults:
            hits[fault.kind].add(fault.victim)
        assert hits["connections lost in silence"] == {"to PostgreSQL", "to Temporal", OF_APP, OF_TEMPORAL}
        assert hits["worker's host lost"] == {"worker-1", "worker-2", "worker-3"}
        assert hits["connections lost in a transaction"] == {OF_RELAY}


def test_every_kind_of_lifecycle_is_started_and_some_are_rolled_back() -> None:
    starts = make_plan(3, 60, 300).starts
    assert {start.lifecycle for start in starts} == {*KINDS, GENERATED}
    assert sum(start.lifecycle == GENERATED for start in starts) == 100
    assert 5 < sum(not start.kept for start in starts) < 60
    assert len({start.id for start in starts}) == len(starts) == 300
    assert all(0 <= start.at < 60 for start in starts)


def test_a_victim_is_hit_by_one_fault_at_a_time_and_no_process_is_frozen_for_longer_than_settle() -> None:
    for seed in range(20):
        hits = defaultdict(list)
        for fault in make_plan(seed, 120, 10, every=1.0).faults:
            hits[fault.victim].append(fault)
            assert fault.kind != "worker frozen" or fault.seconds <= LONGEST_FREEZE < 0.5
        for faults in hits.values():
            assert all(one.at + one.seconds < two.at for one, two in pairwise(faults))


def test_in_a_long_run_a_server_is_away_for_longer_than_anybody_waits() -> None:
    assert max(fault.seconds for fault in make_plan(1, 240, 10).faults) > 10
    assert max(fault.seconds for fault in make_plan(1, 59, 10).faults) <= 3
