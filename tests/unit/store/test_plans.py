"""No function whose plan has a node switched off is compiled: its cost is high by that alone."""

from __future__ import annotations

import re
from pathlib import Path

import perdure

FUNCTIONS = Path(perdure.__file__).parent / "_store/schema/functions"
HEAD = re.compile(r"^language .*? as \$\$$", re.MULTILINE | re.DOTALL)


def test_a_function_that_switches_a_node_off_is_not_compiled_in_the_sessions_of_others() -> None:
    found = 0
    for file in FUNCTIONS.glob("*.sql"):
        for head in HEAD.findall(file.read_text()):
            if "set enable_" in head:
                found += 1
                assert "set jit = off" in head, file.name
    assert found >= 4
