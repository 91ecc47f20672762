"""The records of random patients agree with what they were due, and the judge finds a record that does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.applications.reminders.lives.exploring import explored
from tests.applications.reminders.lives.judge import differences, played
from tests.applications.reminders.lives.lives import Author, Life
from tests.applications.reminders.lives.playing import Player, Records

CORPUS = sorted((Path(__file__).parents[1] / "lives" / "corpus").glob("*.json"))
LIFE = TypeAdapter(Life)


@pytest.mark.parametrize("seed", range(13))
def test_what_patients_are_due_is_on_record(seed: int) -> None:
    assert played(Author(seed).life()) == []


@pytest.mark.parametrize("seed", range(8))
def test_the_same_fault_is_found_in_the_simulation_of_the_core(seed: int) -> None:
    assert explored(seed) == []


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_scenario_of_the_corpus_fails_again(path: Path) -> None:
    assert played(LIFE.validate_json(path.read_text())) == []


def _lose(records: Records) -> None:
    records.started.popitem()


def _double(records: Records) -> None:
    id, (moment, dose) = next(iter(records.started.items()))
    records.started[f"{id[:-2]}07"] = moment, {**dose, "due": "2020-01-01T00:00:00+00:00"}


def _hurry(records: Records) -> None:
    for id, (moment, dose) in records.started.items():
        records.started[id] = moment - timedelta(hours=2), dose


def _delay(records: Records) -> None:
    for id, (moment, dose) in records.started.items():
        records.started[id] = moment + timedelta(days=1), dose


def _disturb(records: Records) -> None:
    for id, (moment, dose) in records.started.items():
        openings = [{**each, "until": "2199-01-01T00:00:00+00:00"} for each in dose["openings"]]
        records.started[id] = moment, {**dose, "openings": openings}


def _make_excuses(records: Records) -> None:
    for id, (moment, _) in records.started.items():
        _, rule, local = id.split("/")
        records.not_started[rule, datetime.fromisoformat(local)] = moment, "withdrawn", "the patient had paused"
    records.started.clear()


SPOILT: dict[Callable[[Records], None], str] = {
    _lose: "never started",
    _double: "started, and was not due",
    _hurry: "too early",
    _delay: "too late",
    _disturb: "sent when it may not be",
    _make_excuses: "not started",
}


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_the_judge_finds_each_planted_fault(spoil: Callable[[Records], None]) -> None:
    life = next(each for each in (Author(seed).life() for seed in range(99)) if not each.said and each.months > 0.2)
    records = Player(life).play()
    assert len(records.started) > 2
    spoil(records)
    assert SPOILT[spoil] in {each.kind for each in differences(life, records)}
