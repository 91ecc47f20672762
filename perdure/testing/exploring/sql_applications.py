"""Applications in virtual time: their transactions commit, commit late, roll back, or have an old snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from perdure.client import Client
from perdure.contracts.keys import Entity
from perdure.testing.exploring.database import Row
from perdure.testing.exploring.evidence import Sent
from perdure.testing.exploring.sql_acts import NOWHERE, Act

if TYPE_CHECKING:
    from perdure.testing.exploring.sql_sessions import VirtualSession
    from perdure.testing.exploring.sql_world import SqlWorld

_ISOLATION = {"repeatable": "repeatable_read", "serializable": "serializable"}
_REFUSED = (
    asyncpg.NoDataFoundError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.DataError,
    asyncpg.UndefinedFunctionError,
)
_TAKE_AWAY = (
    "delete from perdure.ident where lifecycle = $1 and id = $2",
    "delete from perdure.entity where lifecycle = $1 and id = $2",
    "delete from perdure.outbox where lifecycle = $1 and id = $2 and kind = 'start'",
)
_WAYS_OF_STEP = ("", "", "late", "late", "rolled back", "again", "repeatable", "serializable")
_TRIES = 40
_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_PAST_THE_CLIENT = {
    "in a nonsense state": "state => 'nonsense'",
    "beyond": "not_before => timestamptz '9999-12-31 23:59:59-05'",
}
"""Acts that only SQL offers, and may refuse."""


class Applications:
    """All that commits beside workers and relays.

    Attributes:
        sent: messages on their way, by lifecycle and id.
        unfit: entities that were started with an input that no build can read, by id.
    """

    def __init__(self, world: SqlWorld) -> None:
        self._world = world
        self.sent: dict[tuple[str, str], list[Sent]] = {}
        self.unfit: dict[str, Row] = {}
        self._count = 0

    async def do(self, act: Act) -> None:
        """Carry out one act on an entity."""
        lifecycle, program = self._world.scenario.entities[act.entity]
        entity_id = str(act.entity)
        self._world.cover(f"transaction: {act.what}", act.how)
        match act.what:
            case "start":
                await self.start(lifecycle, entity_id, program, act)
            case "message" | "remark" | "nonsense message":
                await self.message(entity_id, act)
            case "cancel":
                await self._cancel(lifecycle, entity_id, act)
            case "restart":
                await self._restart(lifecycle, entity_id, act)
            case "drop rejected":
                await self._drop_rejected(act)
            case "orphan":
                await self._orphan(lifecycle, act)
            case _:
                raise ValueError(f"{act.what!r} is no act")

    def act_of_step(self, what: str) -> Act:
        """How the transaction goes that a step has the application do."""
        random = self._world.random
        how, seconds = random.choice(_WAYS_OF_STEP), random.choice((0.1, 1.0, 6.0))
        self._world.cover(f"step: {what}", how)
        return Act(self._world.loop.time(), what, how=how, seconds=seconds)

    async def start(self, lifecycle: str, entity_id: str, program: Any, act: Act) -> bool:
        """Start an entity, if it is not there; whether that was committed."""
        given, world = program.model_dump(mode="json"), self._world
        known = world.subject.app_with(lifecycle)
        name = NOWHERE if act.how == "nowhere" else lifecycle

        async def work(session: VirtualSession) -> bool:
            if act.how == "unfit":
                statement = "select perdure.start($1, $2, '{\"steps\": 7}')"
                return bool(await session.fetchval(statement, name, entity_id) == "started")
            if more := _PAST_THE_CLIENT.get(act.how):
                statement = f"select perdure.start($1, $2, $3::text::jsonb, {more})"
                return bool(await session.fetchval(statement, name, entity_id, program.model_dump_json()) == "started")
            client = Client(app=None if act.how in ("by name", "nowhere") else known)
            handle = await client.start(name, entity_id, given, connection=session, not_before=self._not_before(act))
            return handle.answer == "started"

        def committed(began: bool) -> None:
            if not began or name != lifecycle:
                return
            self.sent.pop((lifecycle, entity_id), None)
            if act.how == "unfit":
                self.unfit[entity_id] = Row(Entity(lifecycle, entity_id), given, world.loop.now)
            else:
                world.database.rows[entity_id] = Row(Entity(lifecycle, entity_id), given, world.loop.now)

        return await self._transact(act, work, committed)

    async def make_sure(self, lifecycle: str, entity_id: str, program: Any) -> None:
        """Start an entity that is not there, once what stands in its way was rejected and dropped."""
        for _ in range(_TRIES):
            if entity_id in self._world.database.rows:
                return
            if entity_id in self.unfit:
                await self._drop_rejected(Act(0.0, "drop rejected"))
            await self.start(lifecycle, entity_id, program, Act(0.0, "start"))
            await asyncio.sleep(30.0)

    async def message(self, entity_id: str, act: Act | None = None, more: str = "", *, text: str = "") -> bool:
        """Send a message to an entity that is there; whether that was committed.

        Args:
            more: added to its text.
            text: its text, in place of one of its own.
        """
        act = act or Act(0, "message")
        world = self._world
        row = world.database.rows.get(entity_id) or self.unfit.get(entity_id)
        if row is None:
            return False
        self._count += 1
        lifecycle, text, began = row.entity.lifecycle, text or f"message {self._count}{more}", 0.0
        name = {"message": "note", "remark": "remark"}.get(act.what, "nonsense")
        fits = name == "note" or (name == "remark" and lifecycle == world.subject.lifecycle)
        if not fits:
            world.unfit.add(text)

        async def work(session: VirtualSession) -> int | None:
            nonlocal began
            began = world.loop.time()
            if more := _PAST_THE_CLIENT.get(act.how):
                statement = f"select perdure.signal($1, $2, $3, to_jsonb($4::text), $4, {more})"
                answer = await session.fetchval(statement, lifecycle, entity_id, name, text)
            else:
                answer = await Client().signal(
                    lifecycle,
                    entity_id,
                    name,
                    text,
                    connection=session,
                    message_id=text,
                    not_before=self._not_before(act),
                )
            if answer != "sent":
                return None
            return await self._generation_of(session, lifecycle, entity_id, text)

        def committed(number: int | None) -> None:
            if number is None:
                return
            if fits and act.how not in ("far", "beyond"):
                row.messages.append((name, text))
            delayed = act.how in ("later", "far", "beyond")
            sent = Sent(text, began, world.loop.time(), number, fits, delayed)
            self.sent.setdefault((lifecycle, entity_id), []).append(sent)

        return await self._transact(act, work, committed)

    async def _generation_of(self, session: VirtualSession, lifecycle: str, entity_id: str, text: str) -> int:
        """The generation for which a message was accepted: it must be the one that is open now."""
        given = await session.fetchval(
            "select max(generation) from perdure.message where lifecycle = $1 and id = $2 and message_id = $3",
            lifecycle,
            entity_id,
            text,
        )
        standing = await self._world.database.sessions.fetch(
            "select generation, final from perdure.ident where lifecycle = $1 and id = $2", lifecycle, entity_id
        )
        if standing and (standing[0]["generation"] != given or standing[0]["final"] is not None):
            what = f"{lifecycle}/{entity_id}: {text!r} for generation {given}, and the database has {dict(standing[0])}"
            self._world.found("a message is sent to a generation that is over", what)
        return int(given)

    async def _cancel(self, lifecycle: str, entity_id: str, act: Act) -> None:
        async def work(session: VirtualSession) -> str:
            return await Client().cancel(lifecycle, entity_id, by="an app", connection=session)

        await self._transact(act, work, lambda answer: None)

    async def _restart(self, lifecycle: str, entity_id: str, act: Act) -> None:
        """Restart it once it is over."""
        world = self._world
        for _ in range(_TRIES):
            over = await world.database.sessions.fetch(
                "select from perdure.ident where lifecycle = $1 and id = $2 and final is not null", lifecycle, entity_id
            )
            if over:
                break
            await asyncio.sleep(2.0)

        async def work(session: VirtualSession) -> int:
            return await Client().restart(lifecycle, entity_id, by="an app", note="again", connection=session)

        def committed(number: int) -> None:
            row = world.database.rows[entity_id]
            world.cover("restarted", "")
            row.entity, row.messages = Entity(lifecycle, entity_id, number), []

        await self._transact(act, work, committed)

    async def _drop_rejected(self, act: Act) -> None:
        """Drop what was rejected, as operators do."""

        async def work(session: VirtualSession) -> None:
            for row in await session.fetch("select seq from perdure.rejected order by seq"):
                await session.fetchval("select perdure.drop_rejected($1, 'ops')", row["seq"])

        await self._transact(act, work, lambda answer: None)

    async def _orphan(self, lifecycle: str, act: Act) -> None:
        """Leave a message without its entity, as somebody does who deletes rows by hand."""
        self._count += 1
        entity_id = text = f"orphan {self._count}"
        self._world.unfit.add(text)

        async def work(session: VirtualSession) -> None:
            await session.fetchval("select perdure.start($1, $2, '{}')", lifecycle, entity_id)
            await session.fetchval("select perdure.signal($1, $2, 'note', '1', $3)", lifecycle, entity_id, text)
            for statement in _TAKE_AWAY:
                await session.execute(statement, lifecycle, entity_id)

        await self._transact(act, work, lambda answer: None)

    async def _transact(
        self, act: Act, work: Callable[[VirtualSession], Awaitable[Any]], committed: Callable[[Any], None]
    ) -> bool:
        """Do it in a transaction; where the database fails, do it again. Whether it was committed."""
        for _ in range(_TRIES):
            try:
                await self._world.database.arrives()
                async with self._world.database.sessions.lent() as session:
                    committed_now = await self._try(session, act, work, committed)
                if act.how != "again":
                    return committed_now
                act = replace(act, how="")
            except _REFUSED:
                self._world.cover(f"refused: {act.what}", act.how)
                return False
            except (asyncpg.LockNotAvailableError, asyncpg.InterfaceError, OSError):
                await asyncio.sleep(1.0)
            except asyncpg.SerializationError:
                self._world.cover("transaction", "serialization failure")
                await asyncio.sleep(0.1)
                act = replace(act, how="") if act.how in _ISOLATION else act
        return False

    async def _try(
        self,
        session: VirtualSession,
        act: Act,
        work: Callable[[VirtualSession], Awaitable[Any]],
        committed: Callable[[Any], None],
    ) -> bool:
        transaction = session.transaction(isolation=_ISOLATION.get(act.how))  # type: ignore[arg-type]
        await transaction.start()
        try:
            if act.how in _ISOLATION:
                await asyncio.sleep(act.seconds)
            answer = await work(session)
            if act.how in ("late", "rolled back"):
                await asyncio.sleep(act.seconds)
        except BaseException:
            await transaction.rollback()
            raise
        if act.how == "rolled back":
            await transaction.rollback()
            return False
        await transaction.commit()
        committed(answer)
        self._world.relay.nudge()
        return True

    def _not_before(self, act: Act) -> datetime | None:
        if act.how == "far":
            return _LAST
        return self._world.loop.now + timedelta(seconds=act.seconds) if act.how == "later" else None
