"""The record of reconciliations: `perdure.reconciliation`, and the end of findings that are not seen again."""

from __future__ import annotations

import json

from perdure._reconcile.parts import PARTS
from perdure._store.bounds import bounds
from perdure._store.postgres import Pool
from perdure._store.sql import queries, shared
from perdure._wire.reconciliation import Begun, Counts, Done, Named, ReconciliationRequest, Summary
from perdure.errors import NoSuchEntity
from perdure.settings import Settings

query = queries(__name__)

ENTITIES = "open-entities"
_PATIENCE = bounds(lock="5s", statement="60s")


async def looked_up(pool: Pool, only: Named | None) -> Named | None:
    """`only` with the entity's present generation.

    Raises:
        NoSuchEntity: the database has no such entity.
    """
    if only is None:
        return None
    known = await pool.fetchrow(shared("identity"), only.lifecycle, only.id)
    if known is None:
        raise NoSuchEntity(f"{only.lifecycle}/{only.id}: the database has no such entity")
    return Named(lifecycle=only.lifecycle, id=only.id, generation=known["generation"])


async def begin(pool: Pool, settings: Settings, asked: ReconciliationRequest, execution: str) -> Begun:
    """Record a reconciliation, once for each `execution` (run id of its workflow)."""
    grace = settings.reconciliation_grace if asked.grace is None else asked.grace
    only = None if asked.only is None else [asked.only.lifecycle, asked.only.id]
    about = json.dumps({"execution": execution, "only": only, "everything": asked.everything})
    row = await pool.fetchrow(
        query("reconciliation_begin"), asked.by, about, execution, grace, settings.reconciliation_every
    )
    assert row is not None
    # The workflow of a single entity is queried in any case.
    since = None if asked.everything or only is not None else row["asked_since"]
    return Begun(run=row["run"], younger_than=row["younger_than"], asked_since=since)


async def end(pool: Pool, done: Done) -> Summary:
    """Record the end of a reconciliation, and delete findings that are over. It can be repeated."""
    begun, only = done.begun, done.begun.only
    one = (None, None) if only is None else (only.lifecycle, only.id)
    async with pool.acquire(timeout=30) as connection, connection.transaction():
        await connection.execute(_PATIENCE)
        for name, checked in done.checked.items():
            kinds = [kind.name for kind in PARTS[name].kinds] if name in PARTS else []
            await connection.execute(
                query("findings_over"), begun.run, kinds, checked.lifecycles, begun.younger_than, *one
            )
        rows = await connection.fetch(query("findings_counted"), begun.run, *one)
        summary = Summary(
            run=begun.run,
            seen=sum(each.seen for each in done.checked.values()),
            kinds={row["kind"]: Counts(mended=row["mended"], left=row["left"]) for row in rows},
            failed=done.failed,
        )
        about = summary.model_dump_json(include={"kinds", "failed"})
        await connection.execute(
            query("reconciliation_end"), begun.run, summary.seen, summary.mended, summary.left, about
        )
    return summary
