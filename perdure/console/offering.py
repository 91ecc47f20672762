"""Which acts a page offers for one entity: those that its record, and where it answers Temporal, do not rule out."""

from __future__ import annotations

import asyncio

from perdure._operations.entity import Record, Seen, see
from perdure._operations.possible import refusal
from perdure.console.page import View
from perdure.console.verbs import VERBS, Among, Verb
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


async def reasons(view: View, seen: Seen) -> dict[Verb, str | None]:
    """The acts that are for such an entity, each with the reason why it can't be done now, if it can't."""
    row = seen.record.row
    standing = await (await view.sources.session(view.person.name)).client.status(row["lifecycle"], row["id"])
    is_gone = seen.workflow is not None and not seen.workflow.open
    found = {each: refusal(each.name, standing, view.app, is_gone=is_gone) for each in VERBS.values()}
    if not standing.final and _is_cancelled(seen.record):
        found[VERBS["cancel"]] = found[VERBS["cancel"]] or "its end was requested before"
    other = Among.OPEN if standing.final else Among.FINISHED
    return {verb: why for verb, why in found.items() if verb.among is not other}


def _is_cancelled(record: Record) -> bool:
    generation = record.row["generation"]
    return any(each["kind"] == "cancel" and each["generation"] == generation for each in record.messages)
