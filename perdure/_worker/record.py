"""Checks at a worker's start that its code fits the records of open lifecycles."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._text.shown import command
from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.effects import Effect
from perdure.contracts.states import STARTING
from perdure.errors import DeclarationError
from perdure.logs import log_event

query = queries(__name__)

log = logging.getLogger("perdure.worker")


async def check_records(
    connection: Connection,
    lifecycles: Mapping[str, type[Lifecycle[Any, Any]]],
    has_run: Callable[[], Awaitable[bool]],
) -> None:
    """Check the lifecycles as `check_record` does. A build on which lifecycles have run starts again in any case, with
    a warning: Temporal gives it its own runs, which no other worker can continue, and newer builds may have other
    states.

    Args:
        has_run: whether lifecycles have run on this worker's build.

    Raises:
        DeclarationError: as `check_record`.
    """
    for name, lifecycle in lifecycles.items():
        try:
            await check_record(connection, name, lifecycle)
        except DeclarationError as error:
            if not await has_run():
                raise
            what = "starts although its code does not fit all open lifecycles, because some have run on its build"
            log_event(log, what, level=logging.WARNING, why=str(error))


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
