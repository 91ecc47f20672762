"""The other side of the bookings: it has moods, which follow from the seed, and counts what it accepted by key."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from perdure.contracts.attempt import boot_clock
from perdure.contracts.keys import Key
from perdure.contracts.policies import Dedupe
from perdure.testing.exploring.evidence import Account
from tests.chaos.generated import PACE, WINDOW, Generated, policy_of
from tests.chaos.plan import RANDOM
from tests.counterparty import Counterparty

TRUTHFUL_PAUSE = 1.0
"""Seconds that somebody who looks into its books waits first, as `visibility_delay` does."""

MOODS: dict[str, float] = {"willing": 80, "busy": 5, "unwilling": 3, "silent after it": 6, "silent before it": 6}
WORSE: dict[str, float] = {
    "willing": 50,
    "busy": 11,
    "unwilling": 5,
    "silent after it": 12,
    "silent before it": 8,
    "no place": 4,
    "slow": 6,
    "late": 4,
}
"""Moods towards generated lifecycles. `slow` = it accepts, and replies after some time, or too late; `late` = it hangs
up, and accepts it then."""
_LATE = 0.3
"""Seconds."""
_REMEMBERED = {effect.name for effect in Generated.effects if isinstance(effect.doubt, Dedupe)}
_MUTE = 0.1
"""How likely it does not answer a look-up of a generated lifecycle."""


class OtherSide(Counterparty):
    """Accepts, is busy, refuses, or hangs up: before or after it has accepted.

    Attributes:
        late: by key, seconds from the sender's last check until it was accepted; one for each time.
        dropped: how often each key came again where the other side drops repeats.
        marched: which steps of each march were made.
        accounts: by key what it did for generated lifecycles, for the judge.
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
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        self._came: Counter[str] = Counter()
        self._accepting: set[asyncio.Task[None]] = set()

    def mood(self, key: str, number: int) -> str:
        """How it takes the request with this key that comes for the `number`-th time."""
        moods = WORSE if _generated(key) else MOODS
        mood = random.Random(f"{self._seed} {key} {number}").choices([*moods], [*moods.values()])[0]
        if _generated(key):  # a no to a repeat says nothing of what went before it, unless it is known there
            return "willing" if mood == "unwilling" and self._remembers(key) else mood
        mild = number > 1 or "~" in key or key.split("/")[1] in self._never_refused
        return "willing" if mood == "unwilling" and mild else mood

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        key = request["key"]
        self._came[key] += 1
        mood = self.mood(key, self._came[key])
        if mood in ("busy", "no place"):
            return {"not_done": mood, "counts": mood == "busy"}
        if mood == "unwilling":
            return {"refused": "does not want to"}
        if mood == "silent before it":
            return {"close": True}
        if mood == "late":
            self._accepting.add(asyncio.create_task(self._accept_later(request)))
            return {"close": True}
        self._accept(request)
        await self._reply_in_its_time()
        if mood == "slow":
            await asyncio.sleep(random.uniform(0, 8 * PACE))
        return {"close": mood == "silent after it", "number": self.accepted[key]}

    async def _accept_later(self, request: dict[str, Any]) -> None:
        await asyncio.sleep(_LATE)
        self._accept(request)

    def _accept(self, request: dict[str, Any]) -> None:
        key, account, now = request["key"], self.accounts[request["key"]], time.time()
        if self._remembers(key):
            self.dropped[key] += 1
            return
        self.accepted[key] += 1
        self.late[key].append(boot_clock() - request["left"])
        account.policy = policy_of(self._seed, key) if _generated(key) else None
        account.done_at.append(now)
        account.done_by_calls_of.append(request["began"])

    def _remembers(self, key: str) -> bool:
        """Whether it drops a repeat of this key."""
        done_at = self.accounts[key].done_at
        if not done_at:
            return False
        if not _generated(key):
            return "/do-dedupe" in key
        return Key(key).performance[0] in _REMEMBERED and time.time() - done_at[0] < WINDOW

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if _generated(request["key"]) and random.random() < _MUTE:
            return {"close": True}
        return await super()._ask(request)

    async def _step(self, request: dict[str, Any]) -> dict[str, Any]:
        self.marched[request["key"]].add(request["step"])
        await self._reply_in_its_time()
        return {"again": 0}


def _generated(key: str) -> bool:
    return key.split("/")[0] in RANDOM
