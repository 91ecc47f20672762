"""Checks a lifecycle when its class is made, and wraps the author's methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure._workflow.arriving import go_ahead
from perdure._workflow.leaving import Leave, in_handler, reason_of
from perdure._workflow.passing import passed
from perdure._workflow.rules import refuse, why_left
from perdure.contracts.app_column import AppColumn
from perdure.contracts.app_rows import AppRows
from perdure.contracts.argument_types import check_types
from perdure.contracts.effects import Effect, takes_two
from perdure.contracts.erasure import Erasure
from perdure.contracts.input_types import refuse_text_beside_private, set_in
from perdure.contracts.lookups import check_lookup
from perdure.contracts.steps import Step
from perdure.errors import DeclarationError, NotNow

_MAY_OVERRIDE = (
    *("states", "effects", "steps", "mirror", "expects", "erasure", "search_attribute", "if_ended"),
    *("run", "snapshot", "cancelling"),
)
_GUARDED = "__perdure_guarded__"
"""Mark of a handler that is wrapped. A mixin may belong to several lifecycles, and to plain workflows as well."""


def check_handlers(cls: type[Any], base: type[Any]) -> None:
    """Refuse a subclass that overrides a handler, which would silently lose its validator."""
    defined = {name for each in base.__mro__ if each is not Generic for name in each.__dict__}
    for author in _authors_classes(cls, base):
        for name in author.__dict__:
            if name in defined and name not in _MAY_OVERRIDE and not name.startswith("__"):
                raise DeclarationError(
                    f"{author.__name__}.{name} overrides what every lifecycle has: choose another name"
                )
    if "run" not in cls.__dict__ or not hasattr(cls.__dict__["run"], "__temporal_workflow_run"):
        raise DeclarationError(f"{cls.__name__} needs its own `@workflow.run async def run(self, given)`")


def _authors_classes(cls: type[Any], base: type[Any]) -> list[type[Any]]:
    """The class, and those of the author's that it derives from."""
    return [each for each in cls.__mro__ if each not in base.__mro__]


def guard_handlers(cls: type[Any], base: type[Any]) -> None:
    """Wrap the author's handlers, also those of a mixin: an update of an ended run is refused, as those of the base
    class are, and waits for an end that is being written; a handler ends if the whole run is left; and a message lets
    the run look whether it is time for a new one."""
    for handler in (each for author in _authors_classes(cls, base) for each in author.__dict__.values()):
        definition = getattr(handler, "__temporal_signal_definition", None)
        if isinstance(handler, workflow.UpdateMethodMultiParam):
            definition = handler._defn
        if definition is None or hasattr(definition.fn, _GUARDED):
            continue
        answers = isinstance(handler, workflow.UpdateMethodMultiParam)
        if answers:
            # The definition is frozen, and `set_validator` takes only the first one.
            object.__setattr__(definition, "validator", _guarded(definition.fn, definition.validator, base))
        if answers or inspect.iscoroutinefunction(definition.fn):
            guarded = _left(definition.fn, answers, base)
        else:
            guarded = _looks(definition.fn, base)
        setattr(guarded, _GUARDED, True)
        object.__setattr__(definition, "fn", guarded)


def _looks(handler: Callable[..., Any], base: type[Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def handle(self: Any, *given: Any) -> Any:
        if isinstance(self, base):
            self._perdure.waiter.event_came()
        try:
            return handler(self, *given)
        except TimeoutError as error:
            raise reason_of(error) from error

    return handle


def _left(handler: Callable[..., Any], answers: bool, base: type[Any]) -> Callable[..., Any]:
    async def begin(self: Any, *given: Any) -> Any:
        result = handler(self, *given)
        return await result if inspect.isawaitable(result) else result

    @functools.wraps(handler)
    async def handle(self: Any, *given: Any) -> Any:
        if not isinstance(self, base):
            return await begin(self, *given)
        came_at = self._perdure.waiter.event_came()
        go_ahead()
        if not answers:
            passed(came_at)
        try:
            if answers:
                await self._perdure.waiter.until_apart()
                await self._perdure.transitions.until_decided()
            return await begin(self, *given)
        except (Leave, BaseExceptionGroup, TimeoutError) as error:
            if answers and isinstance(error, TimeoutError):  # it fails the update alone
                raise
            reason = reason_of(error)
            self._perdure.left_by(reason)
            if answers:
                raise ApplicationError(why_left(self._perdure.run, reason), type=NotNow.__name__) from None

    return handle


def _guarded(
    handler: Callable[..., Any], validator: Callable[..., None] | None, base: type[Any]
) -> Callable[..., None]:
    @functools.wraps(handler)
    def check(self: Any, *given: Any) -> None:
        if isinstance(self, base):
            run = self._perdure.run
            if run.apart.refuses or run.overtaken or (run.final and not self._perdure.transitions.ending):
                refuse(run)
        if validator is not None:
            validator(self, *given)

    return check


def states_type(cls: type[Any], base: type[Any]) -> Any:
    """The enum of the lifecycle's states."""
    return _parameters(cls, base)[1]


def _parameters(cls: type[Any], base: type[Any]) -> tuple[Any, Any]:
    for each in getattr(cls, "__orig_bases__", ()):
        if _derives(get_origin(each), base):
            given, *states = get_args(each)
            return given, states[0] if states else None
    return None, None


def input_type(cls: type[Any], base: type[Any]) -> Any:
    """The concrete type of the input, because Temporal does not decode a TypeVar."""
    declared = _parameters(cls, base)[0]
    if declared is None or isinstance(declared, TypeVar):
        raise DeclarationError(f"{cls.__name__}: write `class {cls.__name__}(Lifecycle[Input, States])`")
    parameters = list(inspect.signature(cls.run).parameters.values())[1:]
    hinted = get_type_hints(cls.run).get(parameters[0].name) if len(parameters) == 1 else None
    if hinted != declared:
        raise DeclarationError(
            f"{cls.__name__}.run must take one input annotated {declared!r}, as in Lifecycle[...]; it takes {hinted!r}"
        )
    return declared


def _derives(origin: Any, base: type[Any]) -> bool:
    return isinstance(origin, type) and issubclass(origin, base)


def check_attributes(cls: type[Any]) -> None:
    """Refuse an attribute of another type, which would be found in a worker, or never."""
    check_types(cls.__name__, AppColumn | None, mirror=cls.mirror)
    check_types(cls.__name__, AppRows | None, expects=cls.expects)
    check_types(cls.__name__, Erasure | None, erasure=cls.erasure)
    check_types(cls.__name__, str | None, search_attribute=cls.search_attribute)
    check_types(cls.__name__, tuple | list, effects=cls.effects, steps=cls.steps)
    check_types(cls.__name__, Effect, **{f"effects[{place}]": each for place, each in enumerate(cls.effects)})
    check_types(cls.__name__, Step, **{f"steps[{place}]": each for place, each in enumerate(cls.steps)})


def check_effects(cls: type[Any]) -> None:
    """Refuse two effects or steps of one name, missing types, inputs without an order of bytes, and texts beside a
    `Private`."""
    names = [each.name for each in (*cls.effects, *cls.steps)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DeclarationError(f"{cls.__name__}: {twice.pop()!r} is declared twice")
    refuse_text_beside_private(cls.input, f"{cls.__name__}: the input")
    for each in (*cls.effects, *cls.steps):
        for adapter, part in ((each.input, "input"), (each.receipt, "receipt")):
            refuse_text_beside_private(adapter, f"{cls.__name__}: the {part} of {each.name!r}")
    for effect in cls.effects:
        if effect.lookup is not None:
            check_lookup(cls.__name__, effect, effect.lookup)
        if where := set_in(effect.input):
            raise DeclarationError(
                f"{cls.__name__}: the input of {effect.name!r} holds a set: {where}. Each worker would write it in "
                "another order, as other bytes: use a list or a tuple"
            )


def check_if_ended(cls: type[Any]) -> None:
    """Refuse a misspelt `if_ended`, which would let an entity wait for a person in silence, or continue without one."""
    if cls.if_ended not in ("attention", "again"):
        raise DeclarationError(f"{cls.__name__}: if_ended={cls.if_ended!r}: write 'attention' or 'again'")


def check_cancelling(cls: type[Any], base: type[Any]) -> None:
    """Refuse a `cancelling` that could not be awaited, or would never be called, before somebody cancels."""
    own = cls.cancelling
    if own is base.cancelling:
        return
    if not (takes_two(own) and (inspect.iscoroutinefunction(own) or hasattr(own, "__wrapped__"))):
        raise DeclarationError(f"{cls.__name__}.cancelling can't be awaited: write `async def cancelling(self, asked)`")
    if cls.declared.cancelled is None:
        raise DeclarationError(
            f"{cls.__name__}.cancelling would never be called: mark a state with cancelled=True, or leave it out"
        )


def put_conductor_around_run(cls: type[Any]) -> None:
    """Put the conductor around the author's `run`. The wrapper accepts any input, since an input that Temporal cannot
    decode would fail the workflow task for ever. The conductor reads the input, and names the error."""
    run = cls.run

    @functools.wraps(run)
    async def conducted(self: Any, given: Any = None) -> None:
        if in_handler():
            await self._perdure.conduct(functools.partial(run, self), given)
        else:  # by `super().run(given)`
            await run(self, given)

    taken = list(inspect.signature(run).parameters)[1]
    conducted.__annotations__ = {**run.__annotations__, taken: Any}
    cls.run = conducted
