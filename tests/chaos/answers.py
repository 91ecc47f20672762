"""What `perform` had returned to generated lifecycles when they ordered their ends.

Each worker process appends a line to one file before the write is made. So the lines outlive a process that is killed,
and a workflow task that is lost.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from temporalio import workflow

from perdure._wire.writes import Write
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Abandoned, DifferentInput, Done, Expired, GaveUp, NotPerformed, WasRefused
from perdure.testing.exploring.answers import Answer, Answers, watching
from perdure.testing.exploring.evidence import PerformResult
from tests.chaos.plan import RANDOM

FILE = "CHAOS_ANSWERS"
"""Environment variable of a worker: the file."""

_FOR_GOOD = ExitStack()
_KINDS: dict[str, type[NotPerformed]] = {
    kind.__name__: kind for kind in (WasRefused, Expired, Abandoned, GaveUp, DifferentInput)
}


def keep() -> None:
    """Keep them, for as long as this process lasts, where the environment names a file."""
    path = os.environ.get(FILE)
    if path is None:
        return
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def ends(write: Write, answers: Answers) -> None:
        if write.lifecycle in RANDOM and not workflow.unsafe.is_replaying():
            os.write(file, line_of(write, answers, time.time()).encode())

    _FOR_GOOD.enter_context(watching(lambda performance, end: None, ends))


def line_of(write: Write, answers: Answers, at: float) -> str:
    """The line about one end that is ordered."""
    kept = {key: [_as_data(each) for each in all] for key, all in answers.items()}
    entity = {"lifecycle": write.lifecycle, "id": write.id, "generation": write.generation}
    return json.dumps({"entity": entity, "version": write.version, "at": at, "results": kept}) + "\n"


class Kept:
    """What a file holds.

    Several workflow tasks may have ordered the same end: all but one of them were lost, and which one made the write
    that was applied stands nowhere. So what was returned in each of them is kept apart.

    Args:
        path: the file; none was made where nothing ended.
    """

    def __init__(self, path: Path) -> None:
        self._results: dict[tuple[Entity, int], list[Mapping[str, Sequence[PerformResult]]]] = defaultdict(list)
        for line in path.read_text().splitlines() if path.exists() else ():
            kept = json.loads(line)
            self._results[Entity(**kept["entity"]), kept["version"]].append(
                {
                    key: [PerformResult(_from_data(each), kept["at"]) for each in answers]
                    for key, answers in kept["results"].items()
                }
            )

    def __contains__(self, end: tuple[Entity, int]) -> bool:
        """Whether a worker has kept what came with the write of that version."""
        return end in self._results

    def at_the_end(self, entity: Entity, version: int) -> Sequence[Mapping[str, Sequence[PerformResult]]]:
        """What `perform` had returned, by key, in each task that ordered the write of that version."""
        return self._results.get((entity, version), ())


def _as_data(end: Answer) -> dict[str, Any]:
    if isinstance(end, Done):
        return {"kind": Done.__name__}
    return {"kind": type(end).__name__, "why": end.why, "in_doubt": end.in_doubt}


def _from_data(kept: dict[str, Any]) -> Answer:
    if kept["kind"] == Done.__name__:
        return Done(None)
    return _KINDS[kept["kind"]](kept["why"], kept["in_doubt"])
