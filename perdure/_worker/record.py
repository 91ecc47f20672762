"""Checks at a worker's start that its code fits the records of open lifecycles."""

from __future__ import annotations

import shlex
from typing import Any

from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._text.shown import command
from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.effects import Effect
from perdure.contracts.states import STARTING
from perdure.errors import DeclarationError

query = queries(__name__)


async def check_record(connection: Connection, name: str, lifecycle: type[Lifecycle[Any, Any]]) -> None:
    """Check that the lifecycle declares the states and effects of its open entities.

    Raises:
        DeclarationError: an open entity is in an undeclared state, or has an undeclared effect under way or in doubt.
            It could not continue, or would send again under another name.
    """
    rows = await connection.fetch(query("undeclared_states"), name, [STARTING, *lifecycle.declared.names])
    if rows:
        state, entity_id = rows[0]["state"], rows[0]["id"]
        raise DeclarationError(
            f"{name}: open ones are in the state {state!r}, which it does not declare, {name}/{entity_id} for one: "
            f"keep that state until none is in it, or name the state it is now: state(..., aliases=({state!r},)). "
            f"To see them: perdure list --lifecycle {name} --state {shlex.quote(state)}"
        )
    rows = await connection.fetch(query("undeclared_effects"), name, _names(lifecycle.effects))
    if rows:
        effect, entity_id = rows[0]["effect"], rows[0]["id"]
        raise DeclarationError(
            f"{name}: an attempt of {effect!r} is under way or in doubt, and it declares no such effect, "
            f"{name}/{entity_id} has one: keep the contract until that is settled, or name the effect it is now: "
            f"Effect(..., aliases=({effect!r},)). To see it: {command('show', name, entity_id)}"
        )


def _names(effects: tuple[Effect[Any, Any], ...]) -> list[str]:
    return [name for effect in effects for name in effect.names]
