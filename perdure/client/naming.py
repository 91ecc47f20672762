"""Lifecycles that a caller names by class or by name, and the checks of their inputs and signals.

Only a class needs Temporal's workflow modules, so they are imported only for classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError

from perdure._crypto.private import sealed_data
from perdure._crypto.sealed import bound_to
from perdure.client.calls import as_json
from perdure.contracts.input_types import refuse_text_beside_private
from perdure.contracts.keys import Entity, id_text
from perdure.contracts.states import suggestion
from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from perdure._workflow.lifecycle import Lifecycle
    from perdure.app import App

    Which = type[Lifecycle[Any, Any]] | str
    Known = type[Lifecycle[Any, Any]] | None

Handler = Callable[..., Any]


def name_of(lifecycle: Which) -> str:
    """The name of the lifecycle."""
    if isinstance(lifecycle, str):
        return lifecycle
    from perdure.app import name_of as name_of_class

    return name_of_class(lifecycle)


def entity_of(lifecycle: Which, entity_id: object) -> Entity:
    """The entity that a caller names.

    Raises:
        InvalidEntity: the id cannot be used.
    """
    name = name_of(lifecycle)
    return Entity(name, id_text(name, entity_id))


def known(lifecycle: Which, app: App | None) -> Known:
    """The class of the lifecycle, or None if only its name is known.

    Raises:
        UnknownLifecycle: the app has no lifecycle of that name.
    """
    if not isinstance(lifecycle, str):
        return lifecycle
    return None if app is None else app.lifecycle(lifecycle)


def input_text(entity: Entity, lifecycle: Known, given: Any) -> str:
    """The input as JSON text.

    Raises:
        InvalidInput: the input does not fit the model, or is no JSON data.
    """
    with bound_to(entity):
        if lifecycle is not None:
            from perdure.app import input_json

            given = input_json(lifecycle, given, sealing=True)
        return as_json(str(entity), "input", given)


def signal_text(entity: Entity, lifecycle: Known, handler: str | Handler, payload: Any) -> tuple[str, str | None]:
    """A signal's name, and its payload as JSON text, checked if the class is known.

    Raises:
        InvalidInput: there is no such signal, or the payload does not fit or is no JSON data.
    """
    name = handler if isinstance(handler, str) else _name_of_handler(entity, handler)
    with bound_to(entity):
        if lifecycle is not None:
            payload = _checked_payload(entity, lifecycle, name, payload)
        return name, None if payload is None else as_json(str(entity), "payload", payload)


def _name_of_handler(entity: Entity, handler: Handler) -> str:
    definition = getattr(handler, "__temporal_signal_definition", None)
    if definition is None or definition.name is None:
        raise InvalidInput(f"{entity}: {handler!r} is no signal handler: put @workflow.signal on it, or give a name")
    return str(definition.name)


def _checked_payload(entity: Entity, lifecycle: type[Lifecycle[Any, Any]], name: str, payload: Any) -> Any:
    from temporalio import workflow

    signals = workflow._Definition.must_from_class(lifecycle).signals
    definition = signals.get(name, signals.get(None))
    if definition is None:
        names = [each for each in signals if each is not None]
        raise InvalidInput(f"{entity}: no handler takes the signal {name!r}{suggestion(name, names)}")
    takes = definition.arg_types
    if definition.dynamic_vararg or not takes:
        return payload
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(takes[0])
    refuse_text_beside_private(adapter, f"{lifecycle.__name__}: the signal {name!r}")
    try:
        return sealed_data(adapter, adapter.validate_python(payload))
    except (ValidationError, InvalidInput) as error:
        from perdure.contracts.effects import first_problem

        raise InvalidInput(f"{entity}: the payload of {name!r} does not fit: {first_problem(error)}") from None
