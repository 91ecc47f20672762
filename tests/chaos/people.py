"""Those who speak to lifecycles: one who settles what is parked, truthfully, and those who add to counters."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure.contracts import EffectStatus
from perdure.contracts.keys import Key
from tests.chaos.company import Company
from tests.chaos.other_side import TRUTHFUL_PAUSE, OtherSide
from tests.chaos.plan import RANDOM, Plan, Start
from tests.chaos.postbox import Postbox
from tests.chaos.retrying import EXPECTED_ERRORS, answered, failure_of
from tests.mail_secret import token_of
from tests.world import World

ROUNDS = 0.5
"""Seconds between two looks at what needs a person."""
_PATIENCE = 2.0
"""Seconds that a random lifecycle has to go on before it is helped again."""
_AT_ONCE = 20
"""How many are settled at once. All of them at once would keep slow servers from everything else, for good."""
_WANTS = """
    select e.lifecycle, e.id, e.state, e.attention, e.since,
        array(select key from perdure.effect f where f.lifecycle = e.lifecycle and f.id = e.id
              and f.generation = e.generation and f.status in ('attempting', 'in_doubt')) as doubtful
    from perdure.entity e
    where e.attention is not null or e.state in ('failed', 'error')
        or (e.since < now() - interval '15 s' and e.lifecycle not in ('counter', 'rest', 'march'))
        or (e.since < now() - interval '3 s' and e.lifecycle = any($1::text[]))
"""


class Operator:
    """Settles what is in doubt by what the other side really has, and asks for a retry of what failed."""

    def __init__(self, world: World, other_side: OtherSide, postbox: Postbox, company: Company) -> None:
        self._world = world
        self._company = company
        self._other_side = other_side
        self._postbox = postbox
        self._seen: dict[tuple[str, str, str], float] = {}
        self._at_work: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self.settled = 0

    async def run(self) -> None:
        """Look after everything until cancelled."""
        while True:
            try:
                rows = await self._world.client._pool.fetch(_WANTS, ["slow", *RANDOM], timeout=5)
            except EXPECTED_ERRORS:
                rows = []
            for row in rows:
                self._attend(row)
            await asyncio.sleep(ROUNDS)

    def _attend(self, row: Any) -> None:
        who = row["lifecycle"], row["id"]
        first_seen = self._seen.setdefault((*who, row["attention"] or row["state"]), time.monotonic())
        waits = time.monotonic() - first_seen < TRUTHFUL_PAUSE
        if waits or (who in self._at_work and not self._at_work[who].done()):
            return
        self._at_work[who] = asyncio.create_task(self._in_turn(row))

    async def _in_turn(self, row: Any) -> None:
        async with self._gate:
            await self._settle(row)
        if row["lifecycle"] in RANDOM:
            await asyncio.sleep(_PATIENCE)

    async def _settle(self, row: Any) -> None:
        client, who = self._world.client, (row["lifecycle"], row["id"])
        if row["lifecycle"] in RANDOM:
            error = await self._company.help(row["id"], row["attention"])
        elif row["doubtful"] and "in doubt" in (row["attention"] or ""):
            receipt = self._truth(row["doubtful"][0])
            outcome = EffectStatus.NOT_DONE if receipt is None else EffectStatus.DONE
            error = await answered(
                lambda: client.resolve(*who, outcome, by="chaos", note="looked it up", receipt=receipt)
            )
        elif row["state"] in ("failed", "error") and random.random() < 0.5:
            error = await answered(lambda: client.send_again(*who, by="chaos", note="please"))
        else:
            error = await answered(lambda: client.retry(*who, by="chaos", note="please"))
        if error is None:
            self.settled += 1

    def _truth(self, key: str) -> dict[str, Any] | None:
        if key.startswith("comment-notification/"):
            return {"queue_id": "seen"} if self._postbox.counts()[token_of(Key(key))] else None
        number = self._other_side.accepted[key]
        return {"number": number} if number else None


@dataclass
class Additions:
    """What became of a counter's updates: how many were acknowledged, and of how many nobody knows."""

    acknowledged: int = 0
    unknown: int = 0


@dataclass
class Adders:
    """Add to counters, let these go on in new runs, and ask some lifecycles to end.

    Attributes:
        additions: by id of the counter.
        over: from then on nobody adds, and the counters are closed.
    """

    world: World
    plan: Plan
    additions: dict[str, Additions] = field(default_factory=dict)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, began: float) -> None:
        """Speak until every counter has closed."""
        async with asyncio.TaskGroup() as speaking:
            for start in self.plan.starts:
                if start.lifecycle == "counter":
                    self.additions[start.id] = Additions()
                    speaking.create_task(self._count(start, began))
                elif start.cancelled_after is not None and start.kept:
                    speaking.create_task(self._cancel(start, began))

    async def _cancel(self, start: Start, began: float) -> None:
        assert start.cancelled_after is not None
        await asyncio.sleep(began + start.at + start.cancelled_after - asyncio.get_running_loop().time())
        await answered(lambda: self.world.client.cancel(start.lifecycle, start.id, by="chaos", note="not wanted"))

    async def _count(self, start: Start, began: float) -> None:
        luck = random.Random(f"{self.plan.seed} {start.id}")
        await asyncio.sleep(began + start.at - asyncio.get_running_loop().time())
        handle = self.world.handle("counter", start.id)
        while not self.over.is_set():
            await self._add(handle, self.additions[start.id])
            if luck.random() < 0.1:
                await failure_of(lambda: handle.signal("tell", "renew", rpc_timeout=timedelta(seconds=5)))
            await asyncio.sleep(luck.uniform(1.0, 3.0))
        while not await self._closed(start.id):
            # Again, for a run that goes on in a new one at this moment takes it for `continue_as_new`.
            await failure_of(lambda: handle.signal("tell", "close", rpc_timeout=timedelta(seconds=5)))
            await asyncio.sleep(1.0)

    async def _add(self, handle: Any, additions: Additions) -> None:
        error = await failure_of(lambda: handle.execute_update("add", 1, rpc_timeout=timedelta(seconds=5)))
        if error is None:
            additions.acknowledged += 1
        elif "not found" not in str(error):  # else it waits to be delivered
            additions.unknown += 1

    async def _closed(self, entity_id: str) -> bool:
        try:
            return (await self.world.client.status("counter", entity_id)).final
        except EXPECTED_ERRORS:
            return False
