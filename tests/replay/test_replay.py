"""Every history that a release recorded replays with today's code."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from perdure import PerdurePlugin, Settings
from tests.apps.bodies import app
from tests.replay.record import RELEASES, release
from tests.replay.scenarios import SCENARIOS

RECORDED = sorted(RELEASES.glob("*/histories/*.json"))


def _replayer() -> Replayer:
    return Replayer(workflows=[], plugins=[PerdurePlugin(app, Settings())])


def _history(file: Path) -> WorkflowHistory:
    scenario = file.name.partition(".")[0]
    lifecycle = next(each.lifecycle for each in SCENARIOS if each.name == scenario)
    return WorkflowHistory.from_json(f"scope:{lifecycle}/x", file.read_text())


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parents[1].name}/{file.stem}")
async def test_a_recorded_history_replays(file: Path) -> None:
    await _replayer().replay_workflow(_history(file))


def test_this_release_has_a_history_of_every_scenario() -> None:
    recorded = {file.name.partition(".")[0] for file in (RELEASES / release() / "histories").glob("*.json")}
    assert recorded == {scenario.name for scenario in SCENARIOS}


async def test_a_history_that_took_another_way_is_refused() -> None:
    text = next(file for file in RECORDED if "lookup-straight" in file.name).read_text()
    changed = text.replace('"do-lookup"', '"do-something-else"')
    assert changed != text
    with pytest.raises(NondeterminismError):
        await _replayer().replay_workflow(WorkflowHistory.from_json("scope:lookup/x", changed))
