"""What a worker looks at when it starts: whether its code fits what is on record of lifecycles that are open."""

from __future__ import annotations

from typing import Any

from perdure.contracts.effects import Effect
from perdure.errors import DeclarationError
from perdure.queries import query
from perdure.schema import Connection
from perdure.workflow.lifecycle import Lifecycle


async def check_record(connection: Connection, name: str, lifecycle: type[Lifecycle[Any, Any]]) -> None:
    """Make sure that the lifecycle declares what its open entities are in.

    Raises:
        DeclarationError: some are in a state that it does not declare, or have an effect under way or in doubt that
            it does not declare. They could not go on, or would send again under another name.
    """
    rows = await connection.fetch(query("undeclared_states"), name, lifecycle.declared.names)
    if rows:
        state = rows[0]["state"]
        raise DeclarationError(
            f"{name}: open ones are in the state {state!r}, which it does not declare: keep that state until none is "
            f"in it, or say which one it is now: state(..., formerly=({state!r},))"
        )
    rows = await connection.fetch(query("undeclared_effects"), name, _names(lifecycle.effects))
    if rows:
        effect = rows[0][0]
        raise DeclarationError(
            f"{name}: an attempt of {effect!r} is under way or in doubt, and it declares no such effect: keep the "
            f"contract until that is settled, or say which one it is now: Effect(..., formerly=({effect!r},))"
        )


def _names(effects: tuple[Effect[Any, Any], ...]) -> list[str]:
    return [name for effect in effects for name in effect.names]
