"""`App`: the lifecycles of an application, and the bodies of their effects. It is checked before a worker starts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from temporalio import workflow

from perdure._crypto.private import sealed_data
from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.argument_types import check_types
from perdure.contracts.dumping import dump, load
from perdure.contracts.effects import Effect, Lookup, check_body, contract_of, first_problem
from perdure.contracts.keys import check_name
from perdure.contracts.limits import RateLimit, limits_of
from perdure.contracts.problems import ApplicationCheck
from perdure.contracts.states import suggestion
from perdure.contracts.steps import Step
from perdure.errors import DeclarationError, InvalidInput, UnknownLifecycle

if TYPE_CHECKING:
    from perdure.settings import Settings

Contract = Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]
Lifespan: TypeAlias = "Callable[[Settings], AbstractAsyncContextManager[Any]]"
"""Opens the resources that bodies share, until the worker stops."""


class App:
    """The registry of an application.

    Args:
        lifecycles: the classes.
        effects: bodies of effects, look-ups and steps, bound with `@EFFECT.performs`, `@FIND.answers`, `@STEP.takes`.
            Bodies that declare their contract (`@effect`, `@lookup`, `@step`) need not be listed; a body that is listed
            for such a contract takes their place, as a test's may.
        lifespan: a function that makes an async context manager from the worker's settings. The worker enters it before
            it takes work, and leaves it after its last body has ended. Bodies find the yielded value in
            `attempt.resources`.
        checks: functions that return problems of this machine, such as an unreadable log, for `perdure doctor`.
        commands: groups of commands of the application, by their first word. The value is the place of a Typer app,
            as `package.module:name`.
        pages: pages of the application for the console, by a name. The value is the place of a list of
            `perdure.console.Page`, as `package.module:name`. Their templates are in the folder `templates` beside that
            module; `view.render("NAME/page.html")` names them.

    Raises:
        DeclarationError: an effect has no body; a body has no contract, is not used, is not async or cannot take its
            two arguments; two have one name.

    Attributes:
        limits: the rates of the effects and look-ups, by name.
        task_queues: the task queues that effects and look-ups declare, without the scope.

    Example:
        >>> App(lifecycles=[]).lifecycles
        {}
        >>> App(lifecycles=[], pages={"tills": "shop.console:PAGES"}).pages
        {'tills': 'shop.console:PAGES'}
    """

    def __init__(
        self,
        lifecycles: Sequence[type[Lifecycle[Any, Any]]],
        effects: Sequence[Callable[..., Any]] = (),
        *,
        lifespan: Lifespan | None = None,
        commands: Mapping[str, str] | None = None,
        checks: Sequence[ApplicationCheck] = (),
        pages: Mapping[str, str] | None = None,
    ) -> None:
        check_types("App", Sequence, lifecycles=lifecycles, effects=effects)
        self.lifespan = lifespan
        self.checks: tuple[ApplicationCheck, ...] = tuple(checks)
        self.commands: dict[str, str] = dict(commands or {})
        self.pages: dict[str, str] = dict(pages or {})
        self.lifecycles: dict[str, type[Lifecycle[Any, Any]]] = {_name(each): each for each in lifecycles}
        if len(self.lifecycles) != len(lifecycles):
            raise DeclarationError("two lifecycles have the same name")
        self.bodies: dict[str, tuple[Contract, Callable[..., Any]]] = {}
        for body in effects:
            self._bind(body, contract_of(body))
        needed = _needed(lifecycles)
        for contract, _ in needed.values():
            if contract.body is not None and contract.name not in self.bodies:
                self._bind(contract.body, contract)
        self._check(needed)
        self.limits: dict[str, RateLimit] = limits_of(contract for contract, _ in self.bodies.values())
        declared = (contract.task_queue for contract, _ in self.bodies.values())
        self.task_queues: frozenset[str] = frozenset(each for each in declared if each is not None)

    @classmethod
    def discover(
        cls,
        *modules: str,
        lifespan: Lifespan | None = None,
        commands: Mapping[str, str] | None = None,
        pages: Mapping[str, str] | None = None,
    ) -> App:
        """An app of all lifecycles and bodies that some modules define. Imported definitions do not count.

        `perdure worker shop.orders`, without the name of an app, runs `App.discover("shop.orders")`.

        Args:
            modules: the names of the modules; `__name__` for the calling module.
            lifespan: see `App`.
            commands, pages: see `App`.

        Raises:
            DeclarationError: the modules define no lifecycle, or the app cannot be used.
        """
        defined = [
            each
            for module in modules
            for each in vars(importlib.import_module(module)).values()
            if getattr(each, "__module__", None) == module
        ]
        lifecycles = [each for each in defined if isinstance(each, type) and _is_lifecycle(each)]
        if not lifecycles:
            raise DeclarationError(f"no lifecycle is defined in {', '.join(modules) or 'no module'}")
        bodies = [each for each in defined if contract_of(each) is not None]
        return cls(lifecycles, bodies, lifespan=lifespan, commands=commands, pages=pages)

    def lifecycle(self, name: str) -> type[Lifecycle[Any, Any]]:
        """The lifecycle of that name.

        Raises:
            UnknownLifecycle: the app has no such lifecycle.
        """
        try:
            return self.lifecycles[name]
        except KeyError:
            raise UnknownLifecycle(f"no lifecycle is named {name!r}{suggestion(name, self.lifecycles)}") from None

    def contract(self, name: str) -> Contract | None:
        """The contract with this name, today or among its aliases."""
        if name in self.bodies:
            return self.bodies[name][0]
        return next((contract for contract, _ in self.bodies.values() if name in contract.aliases), None)

    def _bind(self, body: Callable[..., Any], contract: Contract | None) -> None:
        if isinstance(body, (Effect, Lookup, Step)):
            raise DeclarationError(f"{body!r} is declared by its body, which a worker finds: leave it out of `effects`")
        if contract is None:
            raise DeclarationError(
                f"{_where(body)} is bound to no contract: put @EFFECT.performs, @FIND.answers or @STEP.takes on it"
            )
        if contract.name in self.bodies:
            other = _where(self.bodies[contract.name][1])
            raise DeclarationError(f"{contract!r} has two bodies: {other} and {_where(body)}")
        check_body(contract, body)
        self.bodies[contract.name] = contract, body

    def _check(self, needed: dict[str, tuple[Contract, str]]) -> None:
        for name, (contract, lifecycle) in needed.items():
            if name not in self.bodies:
                how = {Lookup: "answers", Step: "takes"}.get(type(contract), "performs")
                raise DeclarationError(
                    f"{contract!r} of {lifecycle!r} has no body: "
                    f"give App(effects=[...]) a function decorated with its .{how}"
                )
            if self.bodies[name][0] is not contract:
                raise DeclarationError(f"{_where(self.bodies[name][1])} is bound to another contract named {name!r}")
        every = [name for contract, _ in self.bodies.values() for name in contract.names]
        if twice := {name for name in every if every.count(name) > 1}:
            raise DeclarationError(f"{twice.pop()!r} is the name of one contract and a former name of another")
        for name, (_, body) in self.bodies.items():
            if name not in needed:
                raise DeclarationError(f"{_where(body)} performs {name!r}, which no lifecycle of this app declares")


def input_json(
    lifecycle: type[Lifecycle[Any, Any]], given: Any, *, sealing: bool = False, recorded: bool = False
) -> Any:
    """`given` as JSON data, checked against the lifecycle's input type.

    Args:
        sealing: whether the input comes from outside, and is sealed (`sealed_data`). An input that is passed on stays
            unchanged.
        recorded: whether `given` is JSON data from the database.

    Raises:
        InvalidInput: the input does not fit. The message has the place and not the value, which may be personal.
    """
    try:
        adapter = lifecycle.input
        value = load(adapter, given) if recorded else adapter.validate_python(given)
        return sealed_data(adapter, value) if sealing else dump(adapter.serializer, value, reader=adapter)
    except ValueError as error:
        raise InvalidInput(f"{_name(lifecycle)}: the input does not fit: {first_problem(error)}") from None


def name_of(lifecycle: type[Lifecycle[Any, Any]] | str) -> str:
    """The name of a lifecycle that is given as class or name."""
    return lifecycle if isinstance(lifecycle, str) else _name(lifecycle)


def _is_lifecycle(found: type[Any]) -> bool:
    return issubclass(found, Lifecycle) and workflow._Definition.from_class(found) is not None


def _name(lifecycle: type[Lifecycle[Any, Any]]) -> str:
    given: Any = lifecycle
    if not (isinstance(given, type) and issubclass(given, Lifecycle)):
        raise DeclarationError(f"{lifecycle!r} is no lifecycle: give a class that derives from Lifecycle")
    definition = workflow._Definition.from_class(lifecycle)
    if definition is None or definition.name is None:
        raise DeclarationError(f"{lifecycle.__name__} is no workflow yet: put @workflow.defn(name=...) on it")
    return check_name("lifecycle", definition.name)


def _needed(lifecycles: Sequence[type[Lifecycle[Any, Any]]]) -> dict[str, tuple[Contract, str]]:
    needed: dict[str, tuple[Contract, str]] = {}
    for lifecycle in lifecycles:
        for contract in contracts_of(lifecycle):
            known = needed.setdefault(contract.name, (contract, _name(lifecycle)))[0]
            if known is not contract:
                raise DeclarationError(f"two different contracts are named {contract.name!r}")
    return needed


def contracts_of(lifecycle: type[Lifecycle[Any, Any]]) -> list[Contract]:
    """All contracts of a lifecycle: effects, their look-ups, steps."""
    finds = [effect.lookup for effect in lifecycle.effects if effect.lookup is not None]
    return [*lifecycle.effects, *finds, *lifecycle.steps]


def _where(body: Callable[..., Any]) -> str:
    return f"{getattr(body, '__module__', '?')}.{getattr(body, '__qualname__', body)}"
