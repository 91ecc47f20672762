"""Messages that come through the outbox: each has its place in the entity's order, and is processed once.

They come in an envelope, the signal `perdure-message`. Temporal's SDK would drop a signal of their own name if its
payload cannot be read, and would process it twice if it is delivered twice.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from pydantic import TypeAdapter
from temporalio import workflow

from perdure._wire.messages import Message
from perdure._workflow.author import Author
from perdure.contracts.digits import MORE_DIGITS, loses_digits
from perdure.contracts.effects import first_problem
from perdure.contracts.states import suggestion
from perdure.errors import PerdureError, UnreadableRecord

_ADAPTERS: dict[tuple[type[Any], str], list[TypeAdapter[Any]]] = {}
"""The adapters that read the payload of each handler; made once."""


class _NotOne(PerdureError, TypeError):
    """A handler takes more arguments than a message has."""


def unfit(lifecycle: type[Author], message: Message) -> str | None:
    """Why the lifecycle cannot read a message; None if it can. The text has the place, not the value, which may be
    personal."""
    if message.kind == "cancel":
        return None if lifecycle.declared.cancelled else "it declares no state with cancelled=True to end in"
    handlers = _handlers(lifecycle)
    if message.name not in handlers:
        return f"it has no handler for the signal {message.name!r}{suggestion(message.name, handlers)}"
    try:
        _given(lifecycle, message)
    except ValueError as error:
        return f"the payload of {message.name!r} does not fit: {first_problem(error)}"
    except TypeError as error:
        return f"{message.name!r}: {first_problem(error)}"
    if any(loses_digits(each, message.payload) for each in _adapters(lifecycle, message.name)):
        return f"the payload of {message.name!r} {MORE_DIGITS}"
    return None


def signals(lifecycle: type[Author]) -> list[str]:
    """Names of the signals for which a lifecycle has handlers."""
    return list(_handlers(lifecycle))


async def hand_over(lifecycle: Any, message: Message) -> None:
    """Pass a message to the author's handler. The handler has run to its first `await` when this returns to the loop.

    Raises:
        UnreadableRecord: today's code has no handler for the message, or cannot read it. The workflow task fails until
            other code is deployed.
    """
    if why := unfit(type(lifecycle), message):
        raise UnreadableRecord(f"message {message.id}: {why}")
    result = _handlers(type(lifecycle))[message.name].fn(lifecycle, *_given(type(lifecycle), message))
    if inspect.isawaitable(result):
        await result


def _given(lifecycle: type[Author], message: Message) -> list[Any]:
    """The handler's arguments."""
    adapters = _adapters(lifecycle, message.name)
    if len(adapters) > 1:
        raise _NotOne(f"its handler takes {len(adapters)} arguments, and a message carries one")
    return [each.validate_json(json.dumps(message.payload)) for each in adapters]


def _adapters(lifecycle: type[Author], name: str) -> list[TypeAdapter[Any]]:
    known = _ADAPTERS.get((lifecycle, name))
    if known is None:
        handler = _handlers(lifecycle)[name]
        taken = list(inspect.signature(handler.fn).parameters)[1:]
        known = [TypeAdapter(each) for each in handler.arg_types or [Any] * len(taken)]
        _ADAPTERS[lifecycle, name] = known
    return known


def _handlers(lifecycle: type[Author]) -> dict[str, workflow._SignalDefinition]:
    """The author's own signals, by name."""
    definition = workflow._Definition.must_from_class(lifecycle)
    return {
        name: each for name, each in definition.signals.items() if name is not None and not name.startswith("perdure-")
    }
