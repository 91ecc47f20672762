"""Gathers what every record says: the app's database, Temporal, the other side, the mail server."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from perdure.contracts.keys import Entity, Key
from perdure.testing.exploring.programs import Place
from tests.chaos import generated
from tests.chaos.app import app
from tests.chaos.audit import SETTLE, EffectFacts, Facts
from tests.chaos.judging import Judge
from tests.chaos.load import STEPS
from tests.chaos.other_side import OtherSide
from tests.chaos.people import Additions
from tests.chaos.plan import GENERATED, RANDOM, Plan, Start
from tests.chaos.postbox import Postbox
from tests.mail_secret import token_of
from tests.world import World

WAYS = {
    name: {each.value: frozenset(map(str, lifecycle.declared.followers(each))) for each in lifecycle.states}
    for name, lifecycle in app.lifecycles.items()
}
"""By lifecycle, which states each state may lead to; the first one first."""

_TABLES = {
    "ident": "select lifecycle, id, final from perdure.ident",
    "entity": "select lifecycle, id, state from perdure.entity",
    "finished": "select lifecycle, id, state, why from perdure.finished order by finished_at",
    "transition": "select lifecycle, id, state, attention, at from perdure.transition order by generation, version, at",
    "effect": "select lifecycle, id, key, status from perdure.effect order by first_at, key",
}
_LEFT_OVER = ("entity", "outbox", "message", "behind", "rejected")

Rows = dict[tuple[str, str], list[Any]]


class Books:
    """What was read from the app's database, by table and entity."""

    def __init__(self) -> None:
        self.tables: dict[str, Rows] = {}
        self.bookings: dict[str, str] = {}
        self.comments: dict[str, str] = {}
        self.left_over: dict[str, int] = {}

    async def read(self, connection: Any) -> Books:
        """Read them all."""
        for table, select in _TABLES.items():
            rows: Rows = defaultdict(list)
            for row in await connection.fetch(select):
                rows[row["lifecycle"], row["id"]].append(row)
            self.tables[table] = rows
        self.bookings = {row["id"]: row["state"] for row in await connection.fetch("select id, state from booking")}
        comments = await connection.fetch("select id, notification_state as state from comment")
        self.comments = {str(row["id"]): row["state"] for row in comments}
        for table in _LEFT_OVER:
            self.left_over[table] = await connection.fetchval(f"select count(*) from perdure.{table}")
        return self

    def of(self, table: str, start: Start) -> list[Any]:
        """Rows of one entity."""
        return self.tables[table].get((start.lifecycle, start.id), [])


def subjects(plan: Plan, books: Books) -> list[Start]:
    """All that were started: by the application as planned, and by others."""
    entities = {*books.bookings, *(entity_id for lifecycle, entity_id in books.tables["ident"] if lifecycle in RANDOM)}
    entities = {each for each in entities if generated.is_started(each)}
    planned = [start.id for start in plan.starts if start.lifecycle == GENERATED]
    for each in [*planned, *entities]:
        [*ident] = books.tables["ident"].get((generated.lifecycle_of(each), each), [])
        if ident and ident[0]["final"] == Place.ENDED:  # it has passed all its steps
            entities |= generated.started_for_sure(plan.seed, each)
    started = [Start(0.0, generated.lifecycle_of(each), each) for each in sorted(entities)]
    return [*plan.starts, *started]


async def gather(
    world: World,
    starts: Sequence[Start],
    books: Books,
    other_side: OtherSide,
    postbox: Postbox,
    counters: dict[str, Additions],
    judge: Judge,
) -> list[Facts]:
    """Facts of all that were started."""
    gate = asyncio.Semaphore(20)

    async def workflow(start: Start) -> str | None:
        async with gate:
            return await _workflow(world, start)

    workflows = await asyncio.gather(*(workflow(start) for start in starts))
    accepted = _accepted(other_side, postbox, books)
    facts = [
        _facts(start, said, books, accepted.get((start.lifecycle, start.id), {}), other_side, counters)
        for start, said in zip(starts, workflows, strict=True)
    ]
    return [
        replace(each, judged=await judge.judge(Entity(each.lifecycle, each.id))) if _to_be_judged(each) else each
        for each in facts
    ]


def _to_be_judged(facts: Facts) -> bool:
    return facts.lifecycle in RANDOM and facts.workflow == "COMPLETED"


async def _workflow(world: World, start: Start) -> str | None:
    """Temporal's word; one that is about to close is given a moment, and one that never came is None."""
    for last in (False,) * 300 + (True,):
        try:
            described = await world.handle(start.lifecycle, start.id).describe(rpc_timeout=timedelta(seconds=10))
            said = described.status.name if described.status else "?"
            if said != "RUNNING" or last:
                return said
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            if last:
                raise
        await asyncio.sleep(0.2)
    return None


def _accepted(other_side: OtherSide, postbox: Postbox, books: Books) -> dict[tuple[str, str], dict[str, int]]:
    """How often each key was accepted, by entity."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for key, number in other_side.accepted.items():
        lifecycle, entity_id, _ = key.split("/", 2)
        found[lifecycle, entity_id][key] = number
    tokens = {token_of(Key(row["key"])): row["key"] for rows in books.tables["effect"].values() for row in rows}
    for token, number in postbox.counts().items():
        # A mail of which there is no record is somebody's all the same: whose, its Message-ID does not say.
        key = tokens.get(token, f"comment-notification/{token}/no-record")
        lifecycle, entity_id, _ = key.split("/", 2)
        found[lifecycle, entity_id][key] = number
    return found


def unasked(starts: Sequence[Start], other_side: OtherSide, postbox: Postbox, books: Books) -> Iterable[str]:
    """What the other side has that nobody ever started."""
    known = {(start.lifecycle, start.id) for start in starts}
    return [f"{who[0]}/{who[1]}" for who in _accepted(other_side, postbox, books) if who not in known]


def _facts(
    start: Start,
    workflow: str | None,
    books: Books,
    accepted: dict[str, int],
    other_side: OtherSide,
    counters: dict[str, Additions],
) -> Facts:
    ident, entity = books.of("ident", start), books.of("entity", start)
    rows = books.comments if start.lifecycle == "comment-notification" else books.bookings
    mirrored = app.lifecycles[start.lifecycle].mirror is not None
    statuses = {row["key"]: row["status"] for row in books.of("effect", start)}
    effects = tuple(
        _effect(start, key, statuses.get(key), accepted.get(key, 0), other_side) for key in {**statuses, **accepted}
    )
    return Facts(
        lifecycle=start.lifecycle,
        id=start.id,
        kept=start.kept,
        app_row=start.id in rows,
        column=rows.get(start.id) if mirrored else None,
        known=bool(ident),
        final=ident[0]["final"] if ident else None,
        entity=entity[0]["state"] if entity else None,
        finished=tuple(row["state"] for row in books.of("finished", start)),
        trail=tuple(row["state"] for row in books.of("transition", start)),
        workflow=workflow,
        effects=effects,
        work=tuple(_miscounted(start, books, counters)),
    )


def _effect(start: Start, key: str, status: str | None, accepted: int, other_side: OtherSide) -> EffectFacts:
    if start.lifecycle == "march":
        accepted = int(other_side.marched[key] == set(range(STEPS)))
    visibility_delay = generated.SETTLE if start.lifecycle in RANDOM else SETTLE
    late = sum(seconds > visibility_delay for seconds in other_side.late[key])
    return EffectFacts(key, status, accepted, late, other_side.dropped[key])


def _miscounted(start: Start, books: Books, counters: dict[str, Additions]) -> Iterable[str]:
    """Acknowledged updates that a counter's total does not hold."""
    said = counters.get(start.id)
    finished = books.of("finished", start)
    if start.lifecycle != "counter" or said is None or not finished:
        return
    total = int(finished[-1]["why"].removeprefix("total "))
    if not said.acknowledged <= total <= said.acknowledged + said.unknown:
        yield f"has {total}, of {said.acknowledged} acknowledged additions and {said.unknown} that nobody knows of"
