"""What could not be delivered: which, and how an operator delivers it again or gives it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure._operations.reach import EVERYTHING, Reach
from perdure._store.bounds import bounds
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.sql import queries
from perdure._wire.requests import OperatorRequest
from perdure.client.reading import refusals

query = queries(__name__)

_ROWS = query("rejected")
"""Those that a filter chooses."""
_SHOWN = query("rejected_shown")
_STARTS = query("rejected_starts")
_PATIENCE = bounds(lock="10s", statement="15s")
_RETRY = "select perdure.retry_rejected($1, $2, $3, $4::jsonb)"
_DROP = "select perdure.drop_rejected($1, $2, $3)"


@dataclass(frozen=True, slots=True)
class RejectedSelection:
    """A filter of what was rejected; what is None filters nothing.

    Attributes:
        reason: whose reason contains this text.
        seq: the one with this number.
        until: rejected by then.
        reach: within it.
    """

    lifecycle: str | None = None
    reason: str | None = None
    seq: int | None = None
    until: datetime | None = None
    reach: Reach = EVERYTHING

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Of its queries, the first six."""
        return (self.lifecycle, self.reason, self.seq, self.until, *self.reach.columns)


@dataclass(frozen=True, slots=True)
class Rejected:
    """One that could not be delivered.

    Attributes:
        kind: `start`, `wake` or `message`.
        is_over: its entity has ended, was restarted or is gone.
        runs: it is a start, and a workflow of its entity was begun nevertheless.
        attempted: the key of an effect, if it is a start and one was attempted nevertheless.
        past_is_gone: it is the start of a restart, and how the generation before ended is no longer on record.
    """

    seq: int
    lifecycle: str
    id: str
    generation: int
    kind: str
    message_id: str | None
    reason: str
    rejected_at: datetime
    tenant: str | None
    is_over: bool
    runs: bool
    attempted: str | None
    past_is_gone: bool

    @property
    def not_again(self) -> str | None:
        """Why it can't be delivered again; None = the record does not rule it out."""
        return "its entity has ended, or was restarted, since" if self.is_over else None

    @property
    def not_dropped(self) -> str | None:
        """Why it can't be dropped; None = the record does not rule it out."""
        if self.is_over:
            return None
        if self.runs:
            return "its entity runs: cancel that"
        if self.attempted:
            return f"{self.attempted} is on record: dropped and started again, it could happen twice"
        return "how its entity ended before is no longer on record" if self.past_is_gone else None


async def select_rejected(
    connection: Connection, wanted: RejectedSelection, limit: int | None, after: int | None = None
) -> list[Rejected]:
    """Those behind the number `after`, the oldest first."""
    page = f"{_ROWS} and ($7::bigint is null or j.seq > $7) order by j.seq limit $8"
    rows = await connection.fetch(f"with r as ({page}) {_SHOWN}", *wanted.arguments, after, limit)
    return [Rejected(**row) for row in rows]


async def count_rejected(connection: Connection, wanted: RejectedSelection) -> tuple[int, int]:
    """How many there are, and of how many entities."""
    counted = f"select count(*) as rejected, count(distinct (lifecycle, id)) as entities from ({_ROWS}) r"
    row = await connection.fetchrow(counted, *wanted.arguments)
    assert row is not None
    return row["rejected"], row["entities"]


async def rejected_by_entity(
    connection: Connection, wanted: RejectedSelection, after: tuple[str, str], limit: int
) -> list[tuple[str, str, Sequence[int]]]:
    """Lifecycle, id and numbers, starts first, in the order of lifecycle and id."""
    page = (
        f"select lifecycle, id, array_agg(seq order by kind <> 'start', seq) as seqs from ({_ROWS} "
        'and (j.lifecycle collate "C", j.id collate "C") > ($7::text, $8::text)) r '
        'group by lifecycle, id order by lifecycle collate "C", id collate "C" limit $9'
    )
    rows = await connection.fetch(page, *wanted.arguments, *after, limit)
    return [(row["lifecycle"], row["id"], row["seqs"]) for row in rows]


async def starts_last(connection: Connection, seqs: Sequence[int]) -> list[int]:
    """The order in which to drop these: the drop of a start deletes the rejected messages of its entity."""
    last = {row["seq"] for row in await connection.fetch(_STARTS, seqs)}
    return sorted(seqs, key=lambda seq: seq in last)


async def retry_rejected(pool: Pool, seq: int, asked: OperatorRequest, corrected: str | None = None) -> str:
    """Deliver it again: a start, or a message as the last of its entity's. Returns its kind.

    Args:
        corrected: a start's input, as JSON.

    Raises:
        NoSuchEntity: nothing that was rejected has this number: it may have been dealt with meanwhile.
        NotNow: its entity has ended, or was restarted.
        InvalidInput: an argument can't be used.
        NotPermitted: this role may not.
        DatabaseUnavailable: no answer, or another transaction holds the entity.
    """
    return await _carry_out(pool, _RETRY, seq, asked, corrected)


async def drop_rejected(pool: Pool, seq: int, asked: OperatorRequest) -> str:
    """Give it up: a first start as if it had never been, a restart so that the entity is finished again, a message.

    Raises:
        NoSuchEntity, NotNow, InvalidInput, NotPermitted, DatabaseUnavailable: see `retry_rejected`.
    """
    return await _carry_out(pool, _DROP, seq, asked)


async def _carry_out(pool: Pool, call: str, seq: int, asked: OperatorRequest, *given: str | None) -> str:
    async with (
        refusals(pool, f"rejected {seq}", Kind.OPERATOR),
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await connection.execute(_PATIENCE)
        return str(await connection.fetchval(call, seq, asked.by, asked.note, *given))
