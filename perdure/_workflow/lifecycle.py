"""`Lifecycle`: the base class of a durable workflow that leads one entity of the app to a final state.

A subclass is an ordinary `@workflow.defn` class, so Temporal's documentation of workflows applies.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Generic, Literal, NoReturn, TypeVar

from pydantic import BaseModel, TypeAdapter

from perdure._wire.requests import OperatorRequest
from perdure._wire.terms import own_terms
from perdure._workflow.answering import Answering
from perdure._workflow.arguments import answer_of, check_time, check_why, state_name
from perdure._workflow.arriving import go_ahead
from perdure._workflow.conductor import Conductor
from perdure._workflow.declaring import (
    check_attributes,
    check_cancelling,
    check_effects,
    check_handlers,
    check_if_ended,
    guard_handlers,
    input_type,
    put_conductor_around_run,
    states_type,
)
from perdure._workflow.leaving import in_handler, inside, to_its_end
from perdure._workflow.reading import read
from perdure.contracts.app_column import AppColumn
from perdure.contracts.app_rows import AppRows
from perdure.contracts.dumping import load
from perdure.contracts.effects import Effect, adapter_of
from perdure.contracts.erasure import Erasure
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Done, NotPerformed
from perdure.contracts.policies import DoubtPolicy, RetryPolicy
from perdure.contracts.states import States
from perdure.contracts.steps import Step
from perdure.errors import DeclarationError

I = TypeVar("I")  # noqa: E741 - the field's own letter for an input
S = TypeVar("S", bound=StrEnum)
In = TypeVar("In")
Out = TypeVar("Out")
M = TypeVar("M", bound=BaseModel)


class Lifecycle(Answering, Generic[I, S]):
    """Leads one entity through its states.

    The declaration is checked when the subclass is made. A subclass has an `@workflow.run async def run(self, given:
    Input) -> None`, which ends in a final state, and these attributes:

    Attributes:
        states: the enum of the states, the first one first, which `state` marks; by default the second parameter of
            `Lifecycle[...]`.
        effects: the contracts of the effects that `run` performs. A worker without their bodies does not start.
        steps: the contracts of the steps that `run` takes. A worker without their bodies does not start.
        mirror: a column of the app's own table that shows the state, or None.
        expects: the rows of the app that should have this lifecycle, or None. The reconciliation starts those that
            have none.
        erasure: what else `perdure forget` erases with an entity; None = not declared, and the command reports that.
        search_attribute: name of a Keyword search attribute in Temporal that shows the state, or None. It costs one
            history event for each change of state, and the server must have the attribute.
        if_ended: what the reconciliation does with a workflow of an open entity that failed, timed out, was terminated,
            or was cancelled without Perdure. `attention` = the entity needs a person; `again` = Perdure starts it again
            from its record, through the doubt policies, at most once a day.

    `run` may be started again from its top with the same input, after a long history or on a new cluster. Effects that
    were performed return their receipts without a call, and states that were passed are not entered again. Local
    variables are lost; the `snapshot` is kept. If states lead back to earlier ones, and `run` is not a loop around
    them, the snapshot must show how far `run` is.

    Raises:
        DeclarationError: the declaration cannot be used. Raised when the class is made.

    Example:
        >>> from enum import StrEnum
        >>> from temporalio import workflow
        >>> from perdure import state
        >>> class Way(StrEnum):
        ...     OPEN = "open"
        ...     CLOSED = state("closed", final=True)
        >>> @workflow.defn(name="ticket")
        ... class Ticket(Lifecycle[str, Way]):
        ...     @workflow.run
        ...     async def run(self, title: str) -> None:
        ...         await self.enter(Way.CLOSED, why=title)
    """

    states: ClassVar[type[StrEnum]]
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = ()
    steps: ClassVar[tuple[Step[Any, Any], ...]] = ()
    mirror: ClassVar[AppColumn | None] = None
    expects: ClassVar[AppRows | None] = None
    erasure: ClassVar[Erasure | None] = None
    search_attribute: ClassVar[str | None] = None
    if_ended: ClassVar[Literal["attention", "again"]] = "attention"

    declared: ClassVar[States[Any]]
    """Set by Perdure: `states`, checked."""
    input: ClassVar[TypeAdapter[Any]]
    """Set by Perdure: reads and writes the input."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard_handlers(cls, Lifecycle)
        if not {"run", "states"} & cls.__dict__.keys():
            return  # an author's own base class
        check_handlers(cls, Lifecycle)
        cls.states = getattr(cls, "states", None) or states_type(cls, Lifecycle)
        cls.declared = States(cls.__name__, cls.states)
        cls.input = adapter_of(f"{cls.__name__}: the input", input_type(cls, Lifecycle))
        check_attributes(cls)
        check_effects(cls)
        check_if_ended(cls)
        check_cancelling(cls, Lifecycle)
        put_conductor_around_run(cls)

    async def run(self, given: I, /) -> None:
        """The author's code. Define it in the subclass, with `@workflow.run`."""
        raise NotImplementedError

    @property
    def state(self) -> S:
        """The present state."""
        state: S = self.declared[self._perdure.run.state].name
        return state

    @property
    def entity(self) -> Entity:
        """The entity of this lifecycle."""
        return self._perdure.run.entity

    @property
    def started_at(self) -> datetime:
        """Time at which the app started this generation of the entity, the same in every run."""
        return self._perdure.run.started_at

    async def enter(self, state: S, why: str | None = None) -> None:
        """Enter `state`. The mirror has committed it when this returns.

        Args:
            state: a state that the present one leads to, or the present one.
            why: one line for people, at most 2,000 characters. Everybody can see it: no personal data.

        Raises:
            DeclarationError: the present state does not lead there, `state` is no member of the enum, or `why` is no
                text.
        """
        name = state_name(type(self), state)
        check_why(type(self).__name__, why)
        if await inside(lambda: to_its_end(self._perdure.transitions.enter(name, why))):
            go_ahead()

    async def perform(
        self,
        effect: Effect[In, Out],
        given: In,
        *,
        entering: S | None = None,
        then: S | None = None,
        suffix: str | None = None,
        expires_at: datetime | None = None,
        doubt: DoubtPolicy[In, Out] | None = None,
        timeout: timedelta | None = None,
        retry: RetryPolicy | None = None,
        confirmed_by: Callable[[], Out | None] | None = None,
    ) -> Done[Out] | NotPerformed:
        """Perform an effect until it is settled, however many attempts, look-ups or people that takes.

        Args:
            effect: the contract, declared in `effects`.
            given: the input, the same for every attempt under one key.
            entering: a state to enter together with the record of the first attempt, in one write.
            then: the state to enter if the effect is done, in the commit of that outcome, also if a look-up or a person
                settles it as done. If the state is final, code after this call may not run.
            suffix: distinguishes several performances of one effect. It is part of the key, 1 to 500 bytes.
            expires_at: after this time no attempt begins, not even one that has waited for a worker. An attempt under
                way is not cut off.
            doubt: the policy of this performance in place of the contract's. An `AskFirst` needs the contract's own
                `lookup`. Take `doubt`, `timeout` and `retry` from the input, a receipt or a message, so that they are
                in the history.
            timeout: the longest duration of one call, in place of the contract's.
            retry: the retry policy in place of the contract's.
            confirmed_by: a function that returns the receipt if a message, such as a webhook, confirmed the effect,
                else None. Perdure calls it whenever the effect is in doubt, also while it waits for a person.

        Returns:
            `Done` with the receipt, or `NotPerformed`: `WasRefused`, `Expired`, `Abandoned`, `GaveUp`,
            `DifferentInput`.

        Raises:
            DeclarationError: the effect is not declared, is being performed under the same key, or `doubt` cannot be
                used. Or a state is no member of the enum, `expires_at` has no time zone, or `confirmed_by` is async.
            InvalidInput: `given`, or the receipt of `confirmed_by`, does not fit the contract, or `suffix` can't be
                part of a key, as the empty one.
        """
        if effect not in self.effects:
            raise DeclarationError(f"{type(self).__name__} performs {effect!r}, which is not in its `effects`")
        own = own_terms(effect, doubt=doubt, timeout=timeout, retry=retry)
        check_time(type(self).__name__, expires_at)
        entered, followed = (None if each is None else state_name(type(self), each) for each in (entering, then))
        return await inside(
            lambda: self._perdure.perform(
                effect,
                given,
                suffix=suffix,
                own=own,
                entering=entered,
                then=followed,
                expires_at=expires_at,
                confirmed_by=confirmed_by,
            )
        )

    async def perform_until_done(
        self,
        effect: Effect[In, Out],
        given: In,
        *,
        otherwise: S,
        entering: S | None = None,
        then: S | None = None,
        suffix: str | None = None,
        doubt: DoubtPolicy[In, Out] | None = None,
        timeout: timedelta | None = None,
        retry: RetryPolicy | None = None,
        confirmed_by: Callable[[], Out | None] | None = None,
    ) -> Out:
        """Perform an effect, and return its receipt. If it ends without being done, enter `otherwise`, wait until a
        person requests a retry, and perform it again.

        Args:
            otherwise: a state with `attention=True`.
            effect, given, entering, then, suffix, doubt, timeout, retry, confirmed_by: see `perform`.

        Raises:
            DeclarationError: `otherwise` has no `attention=True`, or as `perform`.
            InvalidInput: as `perform`.
        """
        if not self.declared[state_name(type(self), otherwise)].attention:
            raise DeclarationError(
                f"{type(self).__name__}: otherwise={str(otherwise)!r} would wait for a person whom nothing calls: "
                "declare that state with attention=True"
            )
        while True:
            end = await self.perform(
                effect,
                given,
                entering=entering,
                then=then,
                suffix=suffix,
                doubt=doubt,
                timeout=timeout,
                retry=retry,
                confirmed_by=confirmed_by,
            )
            match end:
                case Done(receipt):
                    return receipt
                case NotPerformed(why):
                    await self.enter(otherwise, why)
                    await self.retry_requested()

    async def step(self, step: Step[In, Out], given: In) -> Out:
        """Take a step, repeat it until it succeeds, and return its result.

        Args:
            step: the contract, declared in `steps`.
            given: the input.

        Raises:
            DeclarationError: the step is not declared.
            InvalidInput: `given` does not fit the contract.
        """
        if step not in self.steps:
            raise DeclarationError(f"{type(self).__name__} takes {step!r}, which is not in its `steps`")
        return await inside(lambda: self._perdure.take(step, given))

    async def retry_requested(self) -> OperatorRequest:
        """Wait until somebody sends `retry_now` or `send_again`. Returns who and why."""
        return await inside(self._perdure.waiter.retry_requested)

    async def wait_until(self, when: datetime) -> None:
        """Wait until a time.

        Raises:
            DeclarationError: the time has no time zone.
        """
        await self.wait_for(lambda: False, until=when)

    async def wait_for(self, condition: Callable[[], bool], *, until: datetime | None = None) -> bool:
        """Wait until `condition()` is true because of a message, or until a time; False if the time came first.

        Raises:
            DeclarationError: `condition` is async, or `until` has no time zone.
        """
        check_time(type(self).__name__, until)
        whose = f"{type(self).__name__}: wait_for"
        return await inside(lambda: self._perdure.waiter.wait_for(lambda: answer_of(whose, condition), until))

    def snapshot(self) -> BaseModel | None:
        """Override it to return the data that `run` needs when it is started from its top, and `restore` it in `run`.

        Perdure calls it with every change of state, and after the last message before a new run. Messages may arrive
        before `run` has restored: add the restored data to what they have changed.
        """
        return None

    def restore(self, kind: type[M]) -> M | None:
        """The last snapshot; None in the first run.

        If `kind` cannot read it, the entity waits and needs a person, until code that can read it is deployed.
        """
        run = self._perdure.run
        if run.restored is None:
            return None
        restored = read(run, "the snapshot", lambda: load(TypeAdapter(kind), run.restored))
        run.has_restored()
        return restored

    async def save(self) -> None:
        """Commit the snapshot now, without a change of state."""
        await inside(lambda: to_its_end(self._perdure.transitions.save()))

    def report(self, how_far: str | None) -> None:
        """Show one line without personal data in the Web UI and in the query `status`. It is not recorded."""
        self._perdure.run.report(how_far)
        self._perdure.recorder.describe()

    def ask_for_reconciliation(self, why: str) -> None:
        """Request a reconciliation of this entity, after the grace time.

        Nothing waits for it, and the history does not hold the request, which is lost if the worker is.

        Args:
            why: one line for the record; no personal data.
        """
        self._perdure.ask_for_reconciliation(why)

    async def cancelling(self, asked: OperatorRequest) -> None:
        """Override it to act between a cancel that stopped `run` and the state in which the lifecycle ends.

        It may wait and perform effects, for example to notify others. Like `run`, it may be started again from its top.
        It is not called if the cancel came before `run` began.
        """

    async def continue_as_new(self) -> NoReturn:
        """Continue in a new run, which starts `run` from its top. Waits do this by themselves when it is time.

        Await it in `run`, in a state that is not final. It waits for updates and attempts under way.

        Raises:
            DeclarationError: a message handler awaits it, which would wait for its own end.
        """
        if in_handler():
            raise DeclarationError(f"{type(self).__name__}: await continue_as_new() in `run`, not in a message handler")
        await inside(self._perdure.waiter.continue_as_new)

    @property
    def _perdure(self) -> Conductor:
        """Made on first use, because messages can arrive before `run` begins, and `__init__` belongs to the author."""
        conductor: Conductor | None = self.__dict__.get("__perdure")
        if conductor is None:
            conductor = self.__dict__["__perdure"] = Conductor(self)
        return conductor
