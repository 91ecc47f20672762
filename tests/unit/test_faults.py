"""Only the harness in `perdure.testing` can switch fault points on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import _faults as faults
from perdure.testing.crashing.places import Places

ROOT = Path(__file__).parents[2]
INJECTS = {"perdure/testing/crashing/victim.py", "perdure/testing/crashing/workflows.py"}


def test_only_the_victims_of_proofs_switch_fault_points_on() -> None:
    switches = {
        str(file.relative_to(ROOT))
        for room in ("perdure", "workflows", "activities", "workers")
        for file in (ROOT / room).rglob("*.py")
        if file.name != "_faults.py" and _touches_the_switch(ast.parse(file.read_text()))
    }
    assert switches == INJECTS


def test_a_worker_does_not_even_import_the_harness() -> None:
    seen = subprocess.run(
        [sys.executable, "-c", "import sys, perdure.cli, workers.comments.app; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "perdure._faults" in seen
    assert [name for name in seen if name.startswith("perdure.testing")] == []


def test_a_place_tells_nobody_unless_somebody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    faults.point("before the call of", "it")
    monkeypatch.setattr(faults, "_reached", seen.append)
    faults.point("before the call of", "it")
    assert seen == ["before the call of it"]


def test_each_visit_of_a_place_has_a_name_of_its_own() -> None:
    seen: list[str] = []
    places = Places(seen.append)
    for place in ("here", "there", "here"):
        places.reached(place)
    assert seen == ["here", "there", "here (2)"]


def _touches_the_switch(tree: ast.AST) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and ast.unparse(node) in ("faults.inject", "faults._reached"))
        or (isinstance(node, ast.ImportFrom) and node.module == "perdure._faults")
        for node in ast.walk(tree)
    )
