"""Those who speak to random lifecycles: they send messages, ask for ends and retries, and settle what is parked."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from perdure.contracts import EffectStatus
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.testing.exploring.contracts import SCAN
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.evidence import Sent
from perdure.testing.exploring.people import GIVEN_UP
from perdure.testing.exploring.programs import starter_of
from tests.chaos.generated import PACE, lifecycle_of
from tests.chaos.generated_bodies import told_by
from tests.chaos.other_side import TRUTHFUL_PAUSE, OtherSide
from tests.chaos.plan import GENERATED, Plan, Start
from tests.chaos.retrying import answered, failure_of, insist
from tests.world import World

_OPEN = "select exists (select from perdure.entity where lifecycle = $1 and id = $2)"
_DOUBTS = "select key, attempts from perdure.effect where lifecycle = $1 and id = $2 and status = 'in_doubt'"
_ACTS = {"message": 50, "confirm": 10, "retry": 15, "send again": 10, "cancel": 10, "cancel through Temporal": 5}
_ABANDONED = 0.1
"""How likely a person gives up what is parked, whatever became of it."""


class Company:
    """See the module.

    Attributes:
        sent: the messages to each, by id; one whose commit was not acknowledged is committed in the infinite future.
        confirmed: keys of effects that messages may have confirmed.
        resolved: how many effects in doubt a person has settled.
    """

    def __init__(self, world: World, plan: Plan, other_side: OtherSide) -> None:
        self.sent: defaultdict[str, dict[str, Sent]] = defaultdict(dict)
        self.confirmed: set[str] = set()
        self.resolved = 0
        self._world, self._plan, self._other_side = world, plan, other_side

    async def run(self, began: float) -> None:
        """Do what comes into their heads, at random moments."""
        async with asyncio.TaskGroup() as speaking:
            for start in self._plan.starts:
                if start.lifecycle == GENERATED and start.kept:
                    speaking.create_task(self._accompany(start, began))

    def note_told(self, started: Iterable[str]) -> None:
        """Each that was started by another may have sent that one its message."""
        for each in started:
            self.sent[starter_of(each)][told_by(each)] = Sent(told_by(each), 0.0, float("inf"))

    async def help(self, entity_id: str, attention: str | None) -> Exception | None:
        """Do what is needed where one does not go on by itself; what was in the way, or None."""
        if attention is not None and "in doubt" in attention:
            return await self._resolve(entity_id)
        act = random.choices(("retry", "message", "send again"), (50, 35, 15))[0]
        return await self._do(act, entity_id)

    async def _accompany(self, start: Start, began: float) -> None:
        luck = random.Random(f"{self._plan.seed} {start.id}")
        acts = luck.choices([*_ACTS], [*_ACTS.values()], k=luck.choice((0, 0, 1, 1, 2, 3, 4)))
        for act in acts:
            at = max(began + start.at - asyncio.get_running_loop().time(), 0.0)
            await asyncio.sleep(at + luck.uniform(0.0, 25 * PACE))
            await self._do(act, start.id)

    async def _do(self, act: str, entity_id: str) -> Exception | None:
        client, who = self._world.client, (lifecycle_of(entity_id), entity_id)
        match act:
            case "message":
                await self._send(entity_id)
                return None
            case "confirm":
                await self._confirm(entity_id)
                return None
            case "retry":
                return await self._retry(entity_id)
            case "send again":
                return await answered(lambda: client.send_again(*who, by="chaos", note="please"))
            case "cancel":
                return await answered(lambda: client.cancel(*who, by="chaos"))
            case _:
                handle = self._world.handle(*who)
                return await failure_of(lambda: handle.cancel(rpc_timeout=timedelta(seconds=5)))

    async def _retry(self, entity_id: str) -> Exception | None:
        """Ask for a retry, or do what the refusal of that says."""
        client, who = self._world.client, (lifecycle_of(entity_id), entity_id)
        error = await answered(lambda: client.retry(*who, by="chaos"))
        named = None if error is None else GIVEN_UP.search(str(error))
        if named is None:
            return error
        return await answered(lambda: client.send_again(*who, by="chaos", note="please", effect=named["key"]))

    async def _confirm(self, entity_id: str) -> None:
        """Send a message that confirms what the other side has done, as a webhook does."""
        entity = Entity(lifecycle_of(entity_id), entity_id)
        accounts = self._other_side.accounts.items()
        if done := [key for key, each in accounts if each.done_at and belongs(key, entity)]:
            effect, suffix, _ = Key(random.choice(done)).performance
            self.confirmed |= {Key.of(entity, effect, suffix, number) for number in range(9)}
            await self._send(entity_id, f" confirms {slot_of(effect, suffix)}")

    async def _send(self, entity_id: str, more: str = "") -> None:
        sent, began = self.sent[entity_id], time.monotonic()
        text = f"message {len(sent) + 1}{more}"
        sent[text] = Sent(text, began, float("inf"))
        who = lifecycle_of(entity_id), entity_id

        async def once() -> str | None:
            if not await self._world.client._pool.fetchval(_OPEN, *who, timeout=5):
                return None  # its start is not committed yet, or it is over
            return await self._world.client.signal(*who, "note", text, message_id=text)

        if await insist(once) in ("sent", "known"):
            sent[text] = Sent(text, began, time.monotonic())

    async def _resolve(self, entity_id: str) -> Exception | None:
        """Only what has been in doubt for a while: what is on its way has arrived by then."""
        doubts = await insist(lambda: self._doubts(entity_id))
        await asyncio.sleep(TRUTHFUL_PAUSE)
        error: Exception | None = None
        for key in {key for key, _ in doubts & await insist(lambda: self._doubts(entity_id))}:
            error = await answered(lambda key=key: self._say(entity_id, key))  # type: ignore[misc]
            self.resolved += error is None
        return error

    async def _doubts(self, entity_id: str) -> set[tuple[str, int]]:
        rows = await self._world.client._pool.fetch(_DOUBTS, lifecycle_of(entity_id), entity_id, timeout=5)
        return {(row["key"], row["attempts"]) for row in rows}

    async def _say(self, entity_id: str, key: str) -> Any:
        effect, suffix, _ = Key(key).performance
        number = str(self._other_side.accepted[key] or "")
        receipt: Any = {"id": number} if effect == SCAN else number
        outcome, receipt = (EffectStatus.DONE, receipt) if number else (EffectStatus.NOT_DONE, None)
        if random.random() < _ABANDONED:
            outcome, receipt = EffectStatus.ABANDONED, None
        who = lifecycle_of(entity_id), entity_id
        return await self._world.client.resolve(
            *who, outcome, by="chaos", note="looked it up", receipt=receipt, effect=slot_of(effect, suffix)
        )
