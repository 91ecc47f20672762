"""The other side of the errands: it has moods, which follow from the seed, and counts what it accepted by key."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from perdure.contracts.attempt import boot_clock
from tests.counterparty import Counterparty

TRUTHFUL_PAUSE = 1.0
"""Seconds that somebody who looks into its books waits first, as `settle` does."""

MOODS: dict[str, float] = {"willing": 80, "busy": 5, "unwilling": 3, "silent after it": 6, "silent before it": 6}


class OtherSide(Counterparty):
    """Accepts, is busy, refuses, or hangs up: before or after it has accepted.

    Attributes:
        late: by key, seconds from the sender's last check until it was accepted; one for each time.
        dropped: how often each key came again where the other side drops repeats.
        marched: which steps of each march were made.
    """

    def __init__(self, seed: int, never_refused: Collection[str] = ()) -> None:
        """Args: `never_refused`: ids of entities; a refusal leaves the seed's other moods as they are."""
        super().__init__()
        self._seed = seed
        self._never_refused = never_refused
        self.takes = 0.0, 0.05
        self.late: defaultdict[str, list[float]] = defaultdict(list)
        self.dropped: Counter[str] = Counter()
        self.marched: defaultdict[str, set[int]] = defaultdict(set)
        self._came: Counter[str] = Counter()

    def mood(self, key: str, time: int) -> str:
        """How it takes the request with this key that comes for the `time`-th time."""
        mood = random.Random(f"{self._seed} {key} {time}").choices([*MOODS], [*MOODS.values()])[0]
        mild = time > 1 or "~" in key or key.split("/")[1] in self._never_refused
        return "willing" if mood == "unwilling" and mild else mood

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        key = request["key"]
        self._came[key] += 1
        mood = self.mood(key, self._came[key])
        if mood == "busy":
            return {"not_done": "busy"}
        if mood == "unwilling":
            return {"refused": "does not want to"}
        if mood == "silent before it":
            return {"close": True}
        if "/do-dedupe" in key and self.accepted[key]:
            self.dropped[key] += 1
        else:
            self.accepted[key] += 1
            self.late[key].append(boot_clock() - request["left"])
        await self._reply_in_its_time()
        return {"close": mood == "silent after it", "number": self.accepted[key]}

    async def _step(self, request: dict[str, Any]) -> dict[str, Any]:
        self.marched[request["key"]].add(request["step"])
        await self._reply_in_its_time()
        return {"again": 0}
