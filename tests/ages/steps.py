"""The steps of a history, each done as an app, a worker, an operator or the reconciliation does it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from perdure._wire.writes import Fence, FenceOp, Move, Write
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import EffectStatus
from tests.integration.retention.months import Connection

Step: TypeAlias = list[Any]
"""Name and arguments; JSON data."""


class NothingToDo(Exception):
    """The step does not fit here."""


@dataclass(slots=True)
class Begun:
    """An attempt that was put on record."""

    entity_id: str
    generation: int
    key: str
    token: str


@dataclass(slots=True)
class People:
    """Everybody but the archive: they act on one database, by the functions that they have.

    Attributes:
        db: their connection.
        lives: of each entity, how often it was forgotten; it stands in all that is personal.
        tenants: that each entity was started with.
        begun: every attempt.
    """

    db: Connection
    lives: dict[str, int] = field(default_factory=dict)
    tenants: dict[str, str | None] = field(default_factory=dict)
    begun: list[Begun] = field(default_factory=list)
    version: int = 0

    def secret(self, entity_id: str) -> str:
        """What is personal of an entity, until it is forgotten."""
        return f"secret-{entity_id}-{self.lives.get(entity_id, 0)}."

    async def do(self, step: Step) -> None:
        """Do a step.

        Raises:
            NothingToDo: it does not fit here.
            asyncpg.PostgresError: it is refused.
        """
        name, *given = step
        verb: Callable[..., Awaitable[None]] = getattr(self, f"_{name}")
        await verb(*given)

    async def _start(self, e: str, tenant: bool) -> None:
        text = self.secret(e) if tenant else None
        answer = await self.db.fetchval("select perdure.start('order', $1, $2, tenant => $3)", e, self._json(e), text)
        if answer == "started":
            self.tenants[e] = text

    async def _import_row(self, e: str) -> None:
        key = Key.of(Entity("order", e), "ship")
        answer = await self.db.fetchval(
            "select perdure.import_row('order', $1, $2, 5, 'ship', $3)", e, self._json(e), key
        )
        if answer in ("started", "in_doubt"):
            token = await self.db.fetchval("select token from perdure.effect where key = $1", key)
            self.begun.append(Begun(e, 0, key, token))
        if answer == "started":
            self.tenants[e] = None

    async def _deliver(self, e: str) -> None:
        await self.db.execute("delete from perdure.outbox where id = $1", e)

    async def _begin(self, e: str) -> None:
        generation = await self._generation(e)
        key = Key.of(Entity("order", e, generation), "ship")
        standing = await self.db.fetchval("select token from perdure.effect where key = $1", key)
        token = f"t{len(self.begun)}"
        fence = Fence(op=FenceOp.BEGIN, key=key, effect="ship", token=token, after=standing, digest="d", in_flight=5)
        if json.loads(await self._write(e, generation, fence=fence))["verdict"] == "fresh":
            self.begun.append(Begun(e, generation, key, token))

    async def _outcome(self, which: int, status: str) -> None:
        begun = self._attempt(which)
        receipt = {"number": which, "of": self.secret(begun.entity_id)} if status == "done" else None
        await self._fence(begun, FenceOp.OUTCOME, status=EffectStatus(status), receipt=receipt, why=f"said {which}")

    async def _lost(self, which: int) -> None:
        await self._fence(self._attempt(which), FenceOp.LOST, why="no word")

    async def _lookup_hint(self, which: int) -> None:
        begun = self._attempt(which)
        await self._fence(begun, FenceOp.NOTE, lookup_hint={"mail": self.secret(begun.entity_id)})

    async def _move(self, e: str, state: str) -> None:
        move = Move(state=state, snapshot={"of": self.secret(e)})
        await self._write(e, await self._generation(e), move)

    async def _finish(self, e: str) -> None:
        await self._write(e, await self._generation(e), Move(state="over", final=True, why=self.secret(e)))

    async def _resolve(self, e: str, outcome: str) -> None:
        sql = "select perdure.resolve('order', $1, null, $2, 'ann', $3, $4)"
        await self.db.execute(sql, e, outcome, self.secret(e), self._json(e) if outcome == "done" else None)

    async def _restart(self, e: str, with_input: bool) -> None:
        given = self._json(e) if with_input else None
        await self.db.execute("select perdure.restart('order', $1, 'ann', $2, input => $3)", e, self.secret(e), given)
        tenant = await self.db.fetchval("select tenant from perdure.entity where id = $1", e)
        assert tenant == self.tenants.get(e), f"a restart of {e} has the tenant {tenant!r}, not {self.tenants.get(e)!r}"

    async def _signal(self, e: str) -> None:
        await self.db.execute("select perdure.signal('order', $1, 'tell', $2)", e, self._json(e))

    async def _cancel(self, e: str) -> None:
        await self.db.execute("select perdure.cancel('order', $1, 'ann', $2)", e, self.secret(e))

    async def _reject(self, e: str) -> None:
        await self.db.execute(
            """with gone as (delete from perdure.outbox where id = $1 returning *)
            insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id, created_at)
            select seq, lifecycle, id, generation, kind, body, 'no worker', message_id, created_at from gone""",
            e,
        )

    async def _retry_rejected(self, e: str) -> None:
        await self.db.execute("select perdure.retry_rejected($1, 'ann', $2)", await self._rejected(e), self.secret(e))

    async def _drop_rejected(self, e: str) -> None:
        await self.db.execute("select perdure.drop_rejected($1, 'ann', $2)", await self._rejected(e), self.secret(e))

    async def _forget(self, e: str) -> None:
        await self.db.execute("select perdure.forget('order', $1, 'officer')", e)
        self.lives[e] = self.lives.get(e, 0) + 1
        self.tenants.pop(e, None)

    async def _note(self, e: str) -> None:
        await self.db.execute("select perdure.note('order', $1, 'ann', $2)", e, self.secret(e))

    async def _recover(self, e: str) -> None:
        sql = "select perdure.start_again('order', $1, generation, version, 'ann', $2) from perdure.ident where id = $1"
        await self.db.execute(sql, e, self.secret(e))

    async def _need_person(self, e: str) -> None:
        sql = "select perdure.need_person('order', $1, generation, version, $2, 'ann') from perdure.ident where id = $1"
        await self.db.execute(sql, e, self.secret(e))

    def _json(self, e: str) -> str:
        return json.dumps({"of": self.secret(e)})

    def _attempt(self, which: int) -> Begun:
        if not self.begun:
            raise NothingToDo
        return self.begun[which % len(self.begun)]

    async def _rejected(self, e: str) -> int:
        seq: int | None = await self.db.fetchval("select min(seq) from perdure.rejected where id = $1", e)
        if seq is None:
            raise NothingToDo
        return seq

    async def _generation(self, e: str) -> int:
        generation: int | None = await self.db.fetchval("select generation from perdure.ident where id = $1", e)
        if generation is None:
            raise NothingToDo
        return generation

    async def _fence(self, begun: Begun, op: FenceOp, **more: Any) -> None:
        fence = Fence(op=op, key=begun.key, effect="ship", token=begun.token, **more)
        await self._write(begun.entity_id, begun.generation, fence=fence)

    async def _write(self, e: str, generation: int, move: Move | None = None, fence: Fence | None = None) -> str:
        self.version += 10
        of = "order", e
        write = Write(
            lifecycle=of[0],
            id=e,
            generation=generation,
            version=self.version,
            workflow_id="/".join(of),
            move=move,
            fence=fence,
        )
        answer: str | None = await self.db.fetchval("select perdure.apply_writes($1)", f"[{write.model_dump_json()}]")
        assert answer is not None, f"the archive keeps a write of {e} waiting"
        return answer
