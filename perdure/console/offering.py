"""Which acts a page offers for one entity: those that its record, and where it answers Temporal, do not rule out."""

from __future__ import annotations

import asyncio
from dataclasses import fields

from perdure._operations.entity import Record, Seen, see
from perdure._operations.possible import refusal
from perdure.client.records import EffectRecord, EntityStatus
from perdure.console.page import View
from perdure.console.verbs import VERBS, Among, Verb
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import TemporalUnavailable

PATIENCE = 2.5
"""Seconds that Temporal has for its part of a page."""


async def seen(view: View, record: Record) -> Seen:
    """How an entity stands, with Temporal's part where that answers in time."""
    scope, app = view.config.scope, view.app
    client = await view.sources.temporal()
    try:
        return await asyncio.wait_for(see(record, client, scope, app), PATIENCE)
    except TimeoutError:
        away = TemporalUnavailable(f"Temporal did not answer within {PATIENCE:g} s")
        return await see(record, away, scope, app)


def reasons(view: View, seen: Seen) -> dict[Verb, str | None]:
    """The acts that are for such an entity, each with the reason why it can't be done now, if it can't."""
    standing = status_of(seen.record)
    is_gone = seen.workflow is not None and not seen.workflow.open
    found = {each: refusal(each.name, standing, view.app, is_gone=is_gone) for each in VERBS.values()}
    if not standing.final and _is_cancelled(seen.record):
        found[VERBS["cancel"]] = found[VERBS["cancel"]] or "its end was requested before"
    other = Among.OPEN if standing.final else Among.FINISHED
    return {verb: why for verb, why in found.items() if verb.among is not other}


def status_of(record: Record) -> EntityStatus:
    """As a client reads it, of the same moment as the rest of the page."""
    row, names = record.row, [each.name for each in fields(EffectRecord) if each.name not in ("status", "receipt")]
    return EntityStatus(
        **{name: row[name] for name in ("lifecycle", "id", "generation", "state", "since", "attention", "tenant")},
        final=row["final"] is not None,
        waits_for_delivery=any(each["kind"] == "start" for each in record.outbox),
        rejected=next((each["reason"] for each in record.rejected if each["generation"] == row["generation"]), None),
        effects=tuple(
            EffectRecord(**{name: each[name] for name in names}, status=EffectStatus(each["status"]), receipt=None)
            for each in record.effects
            if each["generation"] == row["generation"]
        ),
    )


def _is_cancelled(record: Record) -> bool:
    generation = record.row["generation"]
    return any(each["kind"] == "cancel" and each["generation"] == generation for each in record.messages)
