"""Entities by what somebody has in hand: an id or how it begins, `LIFECYCLE/ID`, a workflow id, an effect's key,
or the token of an effect in doubt."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure._operations.reach import EVERYTHING, Reach
from perdure._operations.selection import known_lifecycles
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

_TOKEN = re.compile("[0-9a-f]{40}")
_WITH_GENERATION = re.compile("(.+)~[0-9]+")
"""An id, and the generation with which `str` of an entity shows it; an id may end like that itself."""
MOST = 20
"""Of each lifecycle."""
LOOKED_AT = 20_000
"""Ids of each lifecycle that begin so, among which those within reach are looked for."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entity.

    Attributes:
        exact: it is what was looked for; otherwise its id begins so.
    """

    lifecycle: str
    id: str
    tenant: str | None
    state: str
    exact: bool


async def search(connection: Connection, text: str, scope: str | None, reach: Reach = EVERYTHING) -> list[Found]:
    """What is found within reach, exact ones first.

    Args:
        scope: the first part of workflow ids.
    """
    text = text.strip()
    if not text:
        return []
    known = await known_lifecycles(connection)
    named = text.removeprefix(f"{scope}:") if scope else text
    lifecycle, slash, entity_id = named.partition("/")
    rows = list(await connection.fetch(query("search_key"), text))
    if _TOKEN.fullmatch(text):
        rows += await connection.fetch(query("search_token"), text)
    limits = (MOST, *reach.columns, LOOKED_AT)
    if slash and lifecycle in known and entity_id:
        whole = await connection.fetch(query("search_ids"), [lifecycle], entity_id, *limits)
        rows += whole
        if not any(row["exact"] for row in whole) and (parts := _WITH_GENERATION.fullmatch(entity_id)):
            rows += await connection.fetch(query("search_ids"), [lifecycle], parts[1], *limits)
    within = sorted(each for each in known if reach.includes_some(each))
    rows += await connection.fetch(query("search_ids"), within, text, *limits)
    found = dict.fromkeys(Found(**row) for row in rows if reach.includes(row["lifecycle"], row["tenant"]))
    return sorted(found, key=lambda each: not each.exact)
