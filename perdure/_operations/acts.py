"""What an operator does with one entity. Each act is on record in `transition`, with who asked for it and why; one that
is refused changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from perdure._operations.again import Workflows, start_again
from perdure._operations.bulk import Seen
from perdure._operations.consequences import receipt_problem
from perdure._operations.possible import refusal
from perdure._operations.undone import to_send_again
from perdure._store.bounds import bounds
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.sql import queries
from perdure._wire.requests import OperatorRequest, Resolution
from perdure.app import App
from perdure.client.asking import settling
from perdure.client.calls import call
from perdure.client.client import Client
from perdure.client.reading import refusals
from perdure.client.records import EntityStatus
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import (
    AlreadyFinished,
    DatabaseUnavailable,
    InvalidInput,
    NoSuchEntity,
    NotNow,
    NotOnRecord,
    NoWorkflow,
)

query = queries(__name__)

CANCEL = "perdure-cancel"
"""Id of the message that requests the end: a second request sends no second message."""

_PATIENCE = bounds(lock="10s", statement="15s")
"""A relay may hold an entity for as long as a call to Temporal."""
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Acts:
    """The acts, each for one entity and asked for by one person. Each returns what came of it, in a few words.

    All of them raise:
        NoSuchEntity: the database has no entity of that id.
        NotNow, AlreadyFinished: it makes no sense in the state that the entity is in, or came too late.
        NotPermitted: this role may not.
        DatabaseUnavailable, TemporalUnavailable: no answer; whether it was accepted is not known.
        NotOnRecord: it was accepted, and who requested it could not be recorded.

    Attributes:
        client: with Temporal, except for `cancel`, `restart`, and `resolve` of what has ended.
        pool: the app's database.
        workflows: where they are; None = Temporal is not asked.
        app: its declarations are checked before an act.
        asked: who, and why.
        seen: how the entity was when it was chosen: the act is refused if it is not so any more; None = however it was.
        update_id: of this one act, if it may have been requested before without an answer: a workflow does it once.
    """

    client: Client
    pool: Pool
    workflows: Workflows | None
    app: App | None
    asked: OperatorRequest
    seen: Seen | None = None
    update_id: str | None = None

    async def resolve(
        self,
        entity: Entity,
        outcome: EffectStatus,
        receipt: Any = None,
        effect: str | None = None,
        attempt: int | None = None,
    ) -> str:
        """Say what became of an effect in doubt, also of an entity that ended with the doubt open.

        Args:
            attempt: number of the attempt that is meant; None = the last one.

        Raises:
            InvalidInput: a receipt beside another answer than *done* contradicts that answer.
        """
        if receipt is not None and outcome is not EffectStatus.DONE:
            raise InvalidInput(
                f"{entity}: {outcome.value} with a receipt contradicts itself: leave the receipt out, or answer done"
            )
        given: dict[str, Any] = {"receipt": receipt, "effect": effect, "attempt": attempt}

        async def ask() -> str:  # the workflow's own move has who and why on record
            standing = await self._standing(entity)
            if standing.final:
                by, note = self.asked.by, self.asked.note
                return await self._settle(entity, standing, Resolution(by=by, note=note, outcome=outcome, **given))
            return await self.client.resolve(entity.lifecycle, entity.id, outcome, **self._request, **given)

        return await self._once(entity, ask)

    async def retry(self, entity: Entity, *, send_refused: bool = True) -> str:
        """Let it go on at once; where its workflow was terminated, has failed or is gone, from its record.

        Args:
            send_refused: whether an effect that was refused may be sent again, under a new key.
        """

        async def ask() -> str:
            await self._standing(entity)
            return await self.client.retry(entity.lifecycle, entity.id, **self._request, send_refused=send_refused)

        try:
            answer = await self._once(entity, ask)
        except NoWorkflow:
            if self.workflows is None:
                raise
            return await start_again(self.pool, self.workflows, entity, self.asked)
        await self._record(entity, "retry", answer)
        return answer

    async def send_again(self, entity: Entity, effect: str | None = None) -> str:
        """Send an effect anew that ended without being done, under a new key.

        Args:
            effect: its name or key; None = the only one, as it was when the entity was chosen.
        """

        async def ask() -> str:
            await self._standing(entity)
            undone = self.seen.undone if self.seen else None
            meant = effect if undone is None else to_send_again(entity, undone, effect)
            return await self.client.send_again(entity.lifecycle, entity.id, **self._request, effect=meant)

        answer = await self._once(entity, ask)
        await self._record(entity, "send-again", answer)
        return answer

    async def cancel(self, entity: Entity) -> str:
        """Ask for its end, through the outbox: Temporal may be away."""
        standing = await self._standing(entity)
        if not standing.final and (why := refusal("cancel", standing, self.app)):
            raise NotNow(f"{entity}: {why}")
        asking = call("cancel", entity, made_by=self.asked.by, note=self.asked.note, message_id=CANCEL)
        async with self._transaction(entity) as connection:
            answer = await connection.fetchval(asking.sql("${}"), *asking.values)
            if answer == "sent":
                await self._note(connection, entity, "cancel requested")
            if answer == "known":
                await self._check_own_cancel(connection, entity)
        if answer == "finished":
            standing = await self._standing(entity)
            raise AlreadyFinished(f"{entity}: too late: already {standing.state}")
        if answer == "known":
            return "its end was requested before"
        in_doubt = any(each.status is EffectStatus.IN_DOUBT for each in standing.effects)
        return "its end is requested" + (": what is in doubt is to be resolved first" if in_doubt else "")

    async def _check_own_cancel(self, connection: Connection, entity: Entity) -> None:
        """Only what this person has requested counts as accepted, because nobody else is on record with it."""
        row = await connection.fetchrow(query("cancel_requested"), entity.lifecycle, entity.id, CANCEL)
        assert row is not None
        if row["rejected"]:
            raise NotNow(f"{entity}: requested before, and rejected ({row['rejected']}): `perdure rejected list`")
        if row["made_by"] != self.asked.by:
            raise NotNow(f"{entity}: {row['made_by'] or 'somebody'} has already requested its end")

    async def restart(self, entity: Entity, given: Any = None, generation: int | None = None) -> str:
        """Run a finished entity again, as a new generation with new keys.

        Args:
            generation: the one that is meant; None = the one that was seen, or whichever it is.
        """
        await self._standing(entity)
        if generation is None and self.seen:
            generation = self.seen.generation
        async with self._transaction(entity) as connection:
            number = await self.client.restart(
                entity.lifecycle,
                entity.id,
                by=self.asked.by,
                note=self.asked.note,
                given=given,
                connection=connection,
            )
            if generation not in (None, number - 1):  # what the transaction did is undone
                raise NotNow(f"{entity} was restarted meanwhile: generation {number - 1} has ended, not {generation}")
        return f"runs again, as generation {number}"

    async def note_look(self, entity: Entity) -> None:
        """Put on record that somebody is shown its payloads."""
        await self._standing(entity)
        async with self._transaction(entity) as connection:
            await self._note(connection, entity, "payloads shown")

    @property
    def _request(self) -> dict[str, Any]:
        return {"by": self.asked.by, "note": self.asked.note, "update_id": self.update_id}

    async def _once(self, entity: Entity, ask: Callable[[], Awaitable[str]]) -> str:
        """The answer of its workflow. If the first request was accepted, and its answer was lost, the second one may be
        refused for what the first has changed: then this is the answer to the first."""
        try:
            return await ask()
        except (NotNow, AlreadyFinished):
            if self.update_id is None:
                raise
            answer = await self.client.earlier_answer(entity.lifecycle, entity.id, self.update_id)
            if answer is None:
                raise
            return answer

    async def _standing(self, entity: Entity) -> EntityStatus:
        try:
            standing = await self.client.status(entity.lifecycle, entity.id)
        except NoSuchEntity:
            if self.app is not None:
                self.app.lifecycle(entity.lifecycle)  # an error that suggests a name
            raise
        seen = self.seen or Seen(standing.generation)
        if seen.generation != standing.generation:
            raise NotNow(f"{entity} was restarted since it was chosen, and is {standing.state}")
        if seen.state not in (None, standing.state):
            raise NotNow(f"{entity} was {seen.state} when it was chosen, and is {standing.state} now")
        if seen.attention not in (None, standing.attention):
            why = standing.attention or "nobody is needed"
            raise NotNow(f"{entity} needed a person when it was chosen ({seen.attention}), and now: {why}")
        return standing

    async def _settle(self, entity: Entity, standing: EntityStatus, given: Resolution) -> str:
        call = settling(standing, given)
        doubts = [each for each in standing.effects if each.status.unknown]
        chosen = [each for each in doubts if given.means(each.effect, each.key)]
        if len(chosen) != 1:
            names = [each.effect for each in doubts]
            if len(set(names)) < len(names):  # of several generations
                names = [each.key for each in doubts]
            raise NotNow(f"{entity}: effect={given.effect!r}: name one of {', '.join(names)}")
        if given.outcome is EffectStatus.DONE:
            self._check_receipt(entity, chosen[0].effect, given.receipt)
        async with self._transaction(entity) as connection:
            await connection.fetchval(call.sql("${}"), *call.values)
        return f"resolved as {given.outcome}; it had ended as {standing.state}"

    def _check_receipt(self, entity: Entity, effect: str, receipt: Any) -> None:
        """Where a workflow is there it does so by itself."""
        if why := receipt_problem(self.app, effect, receipt):
            raise InvalidInput(f"{entity}: {why}")

    @asynccontextmanager
    async def _transaction(self, entity: Entity) -> AsyncIterator[Connection]:
        async with refusals(self.pool, str(entity), Kind.OPERATOR):
            try:
                async with self.pool.acquire() as connection, connection.transaction():
                    await connection.execute(_PATIENCE)
                    yield connection
            except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError) as error:
                raise DatabaseUnavailable(f"{entity} is held by another transaction: try again later") from error

    async def _record(self, entity: Entity, what: str, answer: str) -> None:
        """After the act was accepted: one that is refused leaves no trace."""
        for left in reversed(range(_TRIES)):
            try:
                async with self._transaction(entity) as connection:
                    return await self._note(connection, entity, what)
            except DatabaseUnavailable as error:
                if not left:
                    raise NotOnRecord(f"{entity}: {answer}; who requested it could not be recorded: {error}") from error
                await asyncio.sleep(0.5)

    async def _note(self, connection: Connection, entity: Entity, what: str) -> None:
        why = f"{what}: {self.asked.note}" if self.asked.note else what
        await connection.fetchval(
            "select perdure.note($1, $2, $3, $4)", entity.lifecycle, entity.id, self.asked.by, why
        )
