"""Each model that stands in a history, a memo, an outbox row or a snapshot reads what was written before, and writes it
again as it was."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from perdure import _wire
from perdure._wire.known import Known

RECORDED = Path(__file__).parent / "recorded"


def _models() -> dict[str, Any]:
    found: dict[str, Any] = {"known.Known": Known}
    for each in pkgutil.iter_modules(_wire.__path__):
        module = importlib.import_module(f"{_wire.__name__}.{each.name}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, BaseModel) and kind.__module__ == module.__name__ and not name.startswith("_"):
                found[f"{each.name}.{name}"] = kind
    return found


MODELS = _models()


def test_each_model_has_a_record_and_each_record_a_model() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_reads_its_record_and_writes_it_again(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    adapter = TypeAdapter(MODELS[name])
    assert json.loads(adapter.dump_json(adapter.validate_python(recorded))) == recorded


@pytest.mark.parametrize("name", MODELS)
def test_a_record_has_every_field(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    assert set(recorded) == set(TypeAdapter(MODELS[name]).json_schema(mode="validation")["properties"])
