"""Contracts of effects and look-ups: names, types, time-outs and doubt policy; no I/O.

Workflows import contracts. Bodies are bound to them in other files, so a contract imports no client library.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import cached_property
from types import NoneType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_json

from perdure._text.privacy import describe_invalid, reason
from perdure.contracts.argument_types import check_types
from perdure.contracts.dumping import dump
from perdure.contracts.input_types import holds_set, is_untyped
from perdure.contracts.keys import check_name
from perdure.contracts.limits import RateLimit
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Escalate, Repeat, RetryPolicy
from perdure.contracts.spans import check_spans
from perdure.errors import DeclarationError, InvalidInput

if TYPE_CHECKING:
    from perdure.contracts.attempt import Attempt, LookupContext

In = TypeVar("In")
Out = TypeVar("Out")
Body = TypeVar("Body", bound=Callable[..., Any])
Declared = TypeVar("Declared", bound="_Contract[Any, Any]")

Performs: TypeAlias = Callable[[In, "Attempt"], Coroutine[Any, Any, Out]]
"""Body of an effect."""
Answers: TypeAlias = Callable[[In, "LookupContext"], Coroutine[Any, Any, Out | None]]
"""Body of a look-up."""

CONTRACT_MARK = "__perdure_contract__"
"""Attribute of a body that holds the contract to which it is bound."""

SCHEDULE_TO_START_LIMITED = timedelta(days=1)
"""Default `schedule_to_start_timeout` of an effect with a limit, which waits for its turn and not for a worker."""
_SCHEDULE_TO_START = timedelta(minutes=5)


class _Contract(Generic[In, Out]):
    """The common part of effects and look-ups. The types come from `Effect[In, Out](...)`, or from the body that
    declares the contract."""

    body: Callable[..., Coroutine[Any, Any, Any]] | None = None
    """The function that declares the contract, by `@effect`, `@lookup` or `@step`; None = the body is elsewhere."""

    def __init__(
        self,
        name: str,
        *,
        timeout: timedelta,
        inline: bool,
        task_queue: str | None,
        limit: RateLimit | None = None,
        aliases: tuple[str, ...],
    ) -> None:
        kind = type(self).__name__.lower()
        self.name: str = check_name(kind, name)
        if isinstance(aliases, str):
            raise DeclarationError(f"{name}: aliases={aliases!r} must be a tuple: ({aliases!r},)")
        self.aliases: tuple[str, ...] = tuple(check_name(kind, each) for each in aliases)
        if name in self.aliases or len(set(self.aliases)) < len(self.aliases):
            raise DeclarationError(f"{name}: aliases={self.aliases!r} must be other names, oldest first")
        check_timeout(name, timeout)
        check_types(name, RateLimit | None, limit=limit)
        if inline and task_queue is not None:
            raise DeclarationError(
                f"{name}: inline=True runs in the workflow's own worker, so task_queue={task_queue!r} can't be kept"
            )
        if limit is not None and (inline or task_queue is not None):
            other = "inline=True" if inline else f"task_queue={task_queue!r}"
            raise DeclarationError(
                f"{name}: limit={limit.name!r} is kept by a task queue of its own, so {other} can't be: leave one out"
            )
        self.timeout = timeout
        self.inline = inline
        self.task_queue = task_queue
        self.limit = limit
        self.module: str = _declaring_module()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def identity(self) -> str:
        """The first name, which keys contain: a later name sends nothing again."""
        return self.aliases[0] if self.aliases else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Every activity type of this contract, with its former names."""
        return (self.name, *self.aliases)

    @cached_property
    def types(self) -> tuple[Any, Any]:
        """The types of the input and of the receipt, without `Annotated`, which the hints of a body lose."""
        given, receipt = self._declared_types
        holder = SimpleNamespace(__annotations__={"given": given, "receipt": receipt})
        return tuple(get_type_hints(holder).values())

    @cached_property
    def _declared_types(self) -> tuple[Any, Any]:
        alias = getattr(self, "__orig_class__", None)
        if alias is None and self.body is not None:
            return _types_of(self, self.body)
        if alias is None:
            kind = type(self).__name__
            raise DeclarationError(f"{self!r} has no types: write {kind}[Input, Receipt]({self.name!r}, ...)")
        given = get_args(alias)
        return given[0], given[1]

    @cached_property
    def input(self) -> TypeAdapter[In]:
        """Validates and dumps inputs."""
        return adapter_of(f"{self!r}: the input", self._declared_types[0])

    @cached_property
    def receipt(self) -> TypeAdapter[Out]:
        """Validates and dumps receipts."""
        return adapter_of(f"{self!r}: the receipt", self._declared_types[1])

    def dump_input(self, value: In, *, read_back: bool = True) -> Any:
        """`value` as JSON data.

        Args:
            read_back: whether to make sure that the type reads what it writes.

        Raises:
            InvalidInput: the value does not fit the declared type, JSON has no such number or text, or the type
                does not read what it writes: no attempt would ever begin.
        """
        reader = self.input if read_back else None
        try:
            data = dump(self.input.serializer, self.input.validate_python(value), reader=reader)
        except (ValidationError, ValueError) as error:
            raise InvalidInput(
                f"{self.name}: the input does not fit {self._declared_types[0]}: {first_problem(error)}"
            ) from error
        if not read_back:
            return data
        try:
            to_json(data)
        except ValueError:  # JSON data has nothing else that is no JSON
            raise InvalidInput(
                f"{self.name}: the input has a lone surrogate, such as '\\ud800', which is no text: "
                "decode it with errors='replace'"
            ) from None
        return data


class Lookup(_Contract[In, Out]):
    """Contract of a look-up, which asks the other side whether an effect happened.

    Its body returns the receipt (a hit) or `None` (a miss), or raises an exception (no answer).

    Args:
        name: activity type in Temporal; a-z 0-9 _ -.
        timeout: the longest duration of one call.
        inline: run the body in the workflow task, as a local activity; for answers within a few seconds.
        task_queue: task queue of the workers that run it; None = the lifecycle's own.
        limit: a rate for all effects and look-ups with this limit together. Not with `inline` or `task_queue`.
        aliases: former names, the first one first; open runs still use them.

    Example:
        >>> from perdure import LookupContext
        >>> FIND_PAYMENT = Lookup[str, str]("find-payment")
        >>> @FIND_PAYMENT.answers
        ... async def find_payment(order: str, context: LookupContext) -> str | None:
        ...     return None
    """

    def __init__(
        self,
        name: str,
        *,
        timeout: timedelta = timedelta(seconds=10),
        inline: bool = False,
        task_queue: str | None = None,
        limit: RateLimit | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, timeout=timeout, inline=inline, task_queue=task_queue, limit=limit, aliases=aliases)

    def answers(self, body: Answers[In, Out]) -> Answers[In, Out]:
        """Bind a body to this look-up (decorator)."""
        return _mark(body, self)


class Effect(_Contract[In, Out]):
    """Contract of an effect: an act outside of your database that cannot be rolled back.

    Args:
        name: activity type in Temporal and part of every key: a lower-case letter, then up to 62 of a-z 0-9 _ -.
        timeout: the longest duration of one call to the other side.
        doubt: the policy for an attempt whose outcome is unknown.
        retry: when to repeat an attempt that certainly did nothing; None = `RetryPolicy()`.
        inline: run the body in the workflow task, as a local activity. It is cheaper and faster, for calls of a few
            seconds, and has the same fence, but no heartbeats and no task queue of its own.
        heartbeat_timeout: a worker that sends no heartbeat for this long counts as lost; at least 1 s. Not used with
            `inline`.
        schedule_to_start_timeout: how long an attempt may wait for a free worker before the workflow checks again,
            never past `expires_at`; None = 5 minutes, with a `limit` a day. An attempt that is ordered again goes to
            the end of the line. Not used with `inline`.
        task_queue: task queue on which the attempt waits for a worker with this `PERDURE_TASK_QUEUE`; None = the
            lifecycle's own. Not with `inline`.
        limit: a rate for all effects and look-ups with this limit together. Not with `inline` or `task_queue`.
        aliases: former names, the first one first. Keys keep the first name, so a renamed effect sends nothing
            again.

    Example:
        >>> from perdure import Attempt, Repeat
        >>> RING = Effect[str, None]("ring", timeout=timedelta(seconds=5), doubt=Repeat())
        >>> @RING.performs
        ... async def ring(bell: str, attempt: Attempt) -> None:
        ...     attempt.before_first_byte()
    """

    def __init__(
        self,
        name: str,
        *,
        timeout: timedelta,
        doubt: DoubtPolicy[In, Out],
        retry: RetryPolicy | None = None,
        inline: bool = False,
        heartbeat_timeout: timedelta = timedelta(seconds=5),
        schedule_to_start_timeout: timedelta | None = None,
        task_queue: str | None = None,
        limit: RateLimit | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, timeout=timeout, inline=inline, task_queue=task_queue, limit=limit, aliases=aliases)
        check_doubt(name, doubt, timeout)
        check_types(name, RetryPolicy | None, retry=retry)
        check_spans(name, heartbeat_timeout=heartbeat_timeout)
        if schedule_to_start_timeout is not None:
            check_spans(name, schedule_to_start_timeout=schedule_to_start_timeout)
        if heartbeat_timeout < timedelta(seconds=1):
            raise DeclarationError(
                f"{name}: heartbeat_timeout={heartbeat_timeout} is too short to tell a lost worker from a slow one"
            )
        self.doubt: DoubtPolicy[In, Out] = doubt
        self.retry: RetryPolicy = retry or RetryPolicy()
        self.heartbeat_timeout = heartbeat_timeout
        self.schedule_to_start_timeout: timedelta = schedule_to_start_timeout or (
            _SCHEDULE_TO_START if limit is None else SCHEDULE_TO_START_LIMITED
        )

    @cached_property
    def _may_hold_sets(self) -> bool:
        return is_untyped(self.input)

    def dump_input(self, value: In, *, read_back: bool = True) -> Any:
        """See base class. A set in the value is refused, also if the type does not declare it."""
        data = super().dump_input(value, read_back=read_back)
        if self._may_hold_sets and holds_set(self.input.dump_python(value)):
            raise InvalidInput(f"{self.name}: the input holds a set, which has no order: use a list or a tuple")
        return data

    @property
    def lookup(self) -> Lookup[In, Out] | None:
        """The look-up that its doubt policy uses, if any."""
        return self.doubt.lookup if isinstance(self.doubt, AskFirst) else None

    def performs(
        self, body: Callable[[In, Attempt], Coroutine[Any, Any, Out]]
    ) -> Callable[[In, Attempt], Coroutine[Any, Any, Out]]:
        """Bind a body to this effect (decorator).

        The body returns the receipt, or raises `NotDone` (the effect certainly did not happen) or `Refused` (a
        definite no). Any other exception means *in doubt*. Switch off the retries of the client library: the workflow
        owns the attempts (invariant 3).
        """
        return _mark(body, self)


class _Shared(TypedDict, total=False):
    """The optional arguments of effects and look-ups."""

    name: str
    inline: bool
    task_queue: str | None
    limit: RateLimit | None
    aliases: tuple[str, ...]


class LookupOptions(_Shared, total=False):
    """The arguments of `lookup`, as those of `Lookup`; `name` is by default the function's."""

    timeout: timedelta


class EffectOptions(_Shared, total=False):
    """The arguments of `effect` beside `timeout` and `doubt`, as those of `Effect`; `name` is by default the
    function's."""

    retry: RetryPolicy | None
    heartbeat_timeout: timedelta
    schedule_to_start_timeout: timedelta | None


class DeclaresEffect(Protocol):
    """The decorator that `effect` returns for a policy without a look-up."""

    def __call__(self, body: Callable[[In, Attempt], Coroutine[Any, Any, Out]], /) -> Effect[In, Out]: ...


@overload
def effect(
    *, timeout: timedelta, doubt: AskFirst[In, Out], **options: Unpack[EffectOptions]
) -> Callable[[Callable[[In, Attempt], Coroutine[Any, Any, Out]]], Effect[In, Out]]: ...


@overload
def effect(
    *, timeout: timedelta, doubt: Dedupe | Repeat | Escalate, **options: Unpack[EffectOptions]
) -> DeclaresEffect: ...


def effect(*, timeout: timedelta, doubt: DoubtPolicy[Any, Any], **options: Unpack[EffectOptions]) -> Any:
    """Declare an effect by its body (decorator): name, input and receipt are the function's.

    A worker of an app whose lifecycle has the effect finds the body by itself. If the web app or the workflow should
    not import the client libraries of the body, write contract and body in different files: `Effect` and
    `Effect.performs`.

    Args:
        timeout: the longest duration of one call to the other side.
        doubt: the policy for an attempt whose outcome is unknown.
        options: the further arguments of `Effect`. `name` is by default the function's, with `-` for `_`.

    Raises:
        DeclarationError: an argument cannot be used, or the function has no type hints. The latter is raised when the
            lifecycle's class is made.

    Example:
        >>> from perdure import Attempt, Repeat
        >>> @effect(timeout=timedelta(seconds=5), doubt=Repeat())
        ... async def ring_bell(bell: str, attempt: Attempt) -> None:
        ...     attempt.before_first_byte()
        >>> ring_bell
        Effect('ring-bell')
    """

    def declare(body: Performs[In, Out]) -> Effect[In, Out]:
        return _declare(body, Effect, timeout=timeout, doubt=doubt, **options)

    return declare


def lookup(
    **options: Unpack[LookupOptions],
) -> Callable[[Callable[[In, LookupContext], Coroutine[Any, Any, Out | None]]], Lookup[In, Out]]:
    """Declare a look-up by its body (decorator): name, input and receipt are the function's, as with `effect`.

    Args:
        options: the arguments of `Lookup`. `name` is by default the function's, with `-` for `_`.

    Raises:
        DeclarationError: an argument cannot be used, or the function has no type hints. The latter is raised when the
            lifecycle's class is made.

    Example:
        >>> from perdure import LookupContext
        >>> @lookup(timeout=timedelta(seconds=5))
        ... async def find_payment(order: str, context: LookupContext) -> str | None:
        ...     return None
        >>> find_payment
        Lookup('find-payment')
    """

    def declare(body: Answers[In, Out]) -> Lookup[In, Out]:
        return _declare(body, Lookup, **options)

    return declare


def _declare(body: Callable[..., Any], kind: Callable[..., Declared], **options: Any) -> Declared:
    options.setdefault("name", getattr(body, "__name__", "").replace("_", "-"))
    contract = kind(**options)
    contract.body = body
    contract.module = body.__module__
    return contract


def _types_of(contract: _Contract[Any, Any], body: Callable[..., Any]) -> tuple[Any, Any]:
    """Input and receipt of a contract that its body declares."""
    where = f"{body.__module__}.{body.__qualname__}"
    try:
        hints = get_type_hints(body)
    except NameError as error:
        raise DeclarationError(f"{contract!r}: {where} has a type that its module does not define: {error}") from error
    result = hints.pop("return", None)
    if len(hints) != 2 or result is None:
        raise DeclarationError(
            f"{contract!r}: {where} must be annotated: "
            f"`async def {body.__name__}(given: Input, context: ...) -> Receipt`"
        )
    if isinstance(contract, Lookup):  # the body returns None for a miss
        found = (
            [each for each in get_args(result) if each is not NoneType] if NoneType in get_args(result) else [result]
        )
        result = functools.reduce(operator.or_, found)
    return next(iter(hints.values())), result


def adapter_of(what: str, kind: Any) -> TypeAdapter[Any]:
    """Pydantic's adapter of a type that the author declares.

    Raises:
        DeclarationError: Pydantic cannot validate it; `what` is named.
    """
    try:
        return TypeAdapter(kind)
    except PydanticUserError as error:
        why = str(error.message).splitlines()[0]
        raise DeclarationError(f"{what} is {kind!r}, which Pydantic can't validate: {why}") from error


def check_timeout(name: str, timeout: timedelta) -> None:
    """Refuse a time-out that leaves an attempt no time.

    Raises:
        DeclarationError: it is zero, or no usable time.
    """
    check_spans(name, timeout=timeout)
    if not timeout:
        raise DeclarationError(f"{name}: timeout={timeout} must be more than zero")


def check_doubt(name: str, doubt: DoubtPolicy[Any, Any], timeout: timedelta) -> None:
    """Refuse a policy that is none, or whose window leaves no room for a second attempt.

    Raises:
        DeclarationError: the policy cannot be used.
    """
    check_types(name, Dedupe | AskFirst | Repeat | Escalate, doubt=doubt)
    if isinstance(doubt, AskFirst):
        check_types(f"{name}: AskFirst", Lookup, lookup=doubt.lookup)
    if isinstance(doubt, Dedupe) and doubt.window <= timeout + doubt.margin:
        raise DeclarationError(
            f"{name}: Dedupe(window={doubt.window}) leaves no time for a second attempt: "
            f"timeout {timeout} and margin {doubt.margin} are taken off it"
        )


def contract_of(body: Callable[..., Any]) -> Effect[Any, Any] | Lookup[Any, Any] | None:
    """The contract to which `body` is bound, or None."""
    return getattr(body, CONTRACT_MARK, None)


def check_body(contract: _Contract[Any, Any], body: Callable[..., Any]) -> None:
    """Refuse a body that is not async, whose call would happen without a result that could be awaited, and one that
    cannot take its two arguments, whose every attempt would be in doubt.

    A function passes as async that has no return type, or a decorator, because it may return a coroutine.

    Raises:
        DeclarationError: the body is declared to return its result, and no coroutine; or it takes other arguments.
    """
    function = body
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    where = f"{function.__module__}.{function.__qualname__}"
    if not takes_two(body):
        second = "attempt" if isinstance(contract, Effect) else "context"
        raise DeclarationError(
            f"{contract!r}: {where} can't take two arguments: write `async def {function.__name__}(given, {second})`"
        )
    if not _may_be_async(function):
        raise DeclarationError(
            f"{contract!r}: {where} is not async: write `async def`, with `await asyncio.to_thread(...)` around work "
            "that blocks"
        )


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function of the author's can be called with two arguments. The outermost decorator decides."""
    try:
        inspect.signature(function, follow_wrapped=False).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # of a function in C, which need not tell
        return True
    return True


def _may_be_async(function: Callable[..., Any]) -> bool:
    if inspect.iscoroutinefunction(function) or hasattr(function, "__wrapped__"):
        return True
    try:
        returned = get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return True
    kind = get_origin(returned) or returned
    is_awaitable = isinstance(kind, type) and issubclass(kind, Awaitable)
    return is_awaitable or kind in (Any, object) or isinstance(kind, TypeVar)


def _mark(body: Body, contract: _Contract[Any, Any]) -> Body:
    setattr(body, CONTRACT_MARK, contract)
    return body


def _declaring_module() -> str:
    """Module that declares the contract. Workers pass it through the sandbox, so it is imported once."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "typing"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", __name__))


def first_problem(error: Exception) -> str:
    """The first problem, without the value, because inputs may be personal."""
    if isinstance(error, ValidationError):
        return describe_invalid(error)
    return reason(error)
