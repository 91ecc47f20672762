"""`Lifecycle`: the base class of a durable workflow that leads one entity of the app to a final state.

A subclass is an ordinary `@workflow.defn` class: all that Temporal documents applies to it.
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
from perdure._workflow.conductor import Conductor
from perdure._workflow.declaring import (
    check_effects,
    check_handlers,
    check_if_ended,
    guard_handlers,
    input_type,
    put_conductor_around_run,
    states_type,
)
from perdure._workflow.leaving import inside, to_its_end
from perdure._workflow.reading import read
from perdure.contracts.app_column import AppColumn
from perdure.contracts.app_rows import AppRows
from perdure.contracts.effects import Effect
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

    A subclass declares, and is checked when it is made:

    Attributes:
        states: the enum of its states, the first one first; the second parameter of `Lifecycle[...]`, unless it is
            given. Members are marked with `state`.
        effects: the contracts that its `run` performs; a worker without their bodies does not start.
        steps: the contracts of the steps that its `run` takes; likewise.
        mirror: a column of the app's own table that shows the state, or None.
        expects: which rows of the app should have this lifecycle: the reconciliation starts those that have none; or
            None.
        erasure: what else belongs to an entity, for `perdure forget`; None = that is not declared, and it says so.
        search_attribute: name of a Keyword search attribute that shows the state, or None. The mirror answers
            the same questions for less: it costs a history event for each change of state, and the server
            must know the attribute.
        if_ended: what a reconciliation does where its workflow failed, timed out, was terminated, or cancelled past
            perdure, and the entity is open: `attention` = lets it need a person, `again` = starts it again from its
            record, through the doubt policies; once a day at most.
        then its own `@workflow.run async def run(self, given: Input) -> None`, which ends in a final state.

    `run` may be started again from its top (after a long history, or on a new cluster) with the same input:
    effects that were performed return their receipts without a call, states that were passed are not entered
    again; what it keeps in local variables is lost, what its `snapshot` held is there. Where states lead back to
    earlier ones, and `run` is not a loop around them, it must keep in its snapshot how far it is.

    Raises:
        DeclarationError: when the class is made, where the declaration can't work.

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
    """Set by perdure: `states`, checked."""
    input: ClassVar[TypeAdapter[Any]]
    """Set by perdure: reads and writes the input."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard_handlers(cls)
        if not {"run", "states"} & cls.__dict__.keys():
            return  # a base class of somebody's own
        check_handlers(cls, Lifecycle)
        cls.states = getattr(cls, "states", None) or states_type(cls, Lifecycle)
        cls.declared = States(cls.__name__, cls.states)
        cls.input = TypeAdapter(input_type(cls, Lifecycle))
        check_effects(cls)
        check_if_ended(cls)
        put_conductor_around_run(cls)

    async def run(self, given: I, /) -> None:
        """What the lifecycle does; write it in the subclass, with `@workflow.run`."""
        raise NotImplementedError

    @property
    def state(self) -> S:
        """The state it is in."""
        state: S = self.declared[self._perdure.run.state].name
        return state

    @property
    def entity(self) -> Entity:
        """Whose lifecycle it is."""
        return self._perdure.run.entity

    @property
    def started_at(self) -> datetime:
        """When the entity was started, in this generation: the same in every run, so what is counted from it stays."""
        return self._perdure.run.started_at

    async def enter(self, state: S, why: str | None = None) -> None:
        """Enter `state`, committed in the mirror before this returns.

        Args:
            state: one that the present state leads to, or the present one.
            why: one line for whoever looks; no personal data.

        Raises:
            DeclarationError: the present state does not lead there.
        """
        await inside(lambda: to_its_end(self._perdure.transitions.enter(state.value, why)))

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
            effect: its contract, declared in `effects`.
            given: its input; the same one for the same key, always.
            entering: state that is committed together with the first attempt's record.
            then: state that is entered if it is done, committed together with that outcome: a write less than to
                enter it afterwards. If it is final, what follows in `run` is not certain to be run.
            suffix: tells several performances of one effect apart: part of the key.
            expires_at: from then on it is of no use: no attempt is begun, and it ends `Expired`.
            doubt: the policy of this performance, in place of the contract's; an `AskFirst` with the contract's own
                `lookup`. Like `timeout` and `retry` it must come from the history: from the input, a receipt, a
                message.
            timeout: the longest that one of its calls may take, in place of the contract's.
            retry: in place of the contract's.
            confirmed_by: asked whenever nobody knows whether it happened: the receipt, where a message (such as a
                webhook) has said that it did; None where none has.

        Returns:
            `Done` with the receipt, or `NotPerformed`: `WasRefused`, `Expired`, `Abandoned`, `GaveUp`,
            `DifferentInput`.

        Raises:
            DeclarationError: it is not declared, is being performed under the same key, or `doubt` can't work.
            InvalidInput: `given` is not what the contract declares.
        """
        if effect not in self.effects:
            raise DeclarationError(f"{type(self).__name__} performs {effect!r}, which is not in its `effects`")
        own = own_terms(effect, doubt=doubt, timeout=timeout, retry=retry)
        return await inside(
            lambda: self._perdure.perform(
                effect,
                given,
                suffix=suffix,
                own=own,
                entering=entering and entering.value,
                then=then and then.value,
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
        """Perform an effect, and give its receipt. Whenever it ends without being done, enter `otherwise`, wait until
        a person asks for a retry, and perform it again.

        Args:
            otherwise: a state with `attention=True`.
            effect, given, entering, then, suffix, doubt, timeout, retry, confirmed_by: see `perform`.

        Raises:
            DeclarationError: `otherwise` has no `attention=True`; or as `perform`.
            InvalidInput: as `perform`.
        """
        if not self.declared[otherwise].attention:
            raise DeclarationError(
                f"{type(self).__name__}: otherwise={otherwise.value!r} would wait for a person whom nothing calls: "
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
        """Take a step, again and again until it succeeds, and give what it returned.

        Args:
            step: its contract, declared in `steps`.
            given: its input.

        Raises:
            DeclarationError: it is not declared.
            InvalidInput: `given` is not what the contract declares.
        """
        if step not in self.steps:
            raise DeclarationError(f"{type(self).__name__} takes {step!r}, which is not in its `steps`")
        return await inside(lambda: self._perdure.take(step, given))

    async def retry_requested(self) -> OperatorRequest:
        """Wait until somebody asks for a retry (`retry_now`, `send_again`); says who and why."""
        return await inside(self._perdure.waiter.retry_requested)

    async def wait_until(self, when: datetime) -> None:
        """Wait for a time (aware)."""
        await self.wait_for(lambda: False, until=when)

    async def wait_for(self, condition: Callable[[], bool], *, until: datetime | None = None) -> bool:
        """Wait until `condition()`, that a message brings about, or until a time; False if that came first."""
        return await inside(lambda: self._perdure.waiter.wait_for(condition, until))

    def snapshot(self) -> BaseModel | None:
        """What `run` must find again when it is started from its top; override it, and `restore` it in `run`.

        Taken with every change of state, and after the last message before a run goes on in a new one. Messages
        may arrive before `run` has recalled: what they change must be added to what is recalled, not lost by it.
        """
        return None

    def restore(self, kind: type[M]) -> M | None:
        """The last snapshot; None in the first run.

        Where `kind` can't read it, the entity stands still and needs a person, until code is deployed that can.
        """
        run = self._perdure.run
        if run.restored is None:
            return None
        restored = read(run, "the snapshot", lambda: kind.model_validate(run.restored))
        run.has_restored()
        return restored

    async def save(self) -> None:
        """Commit the snapshot now, without a change of state."""
        await inside(lambda: to_its_end(self._perdure.recorder.move_here("saved")))

    def report(self, how_far: str | None) -> None:
        """Say how far it is: one line without personal data, for the Web UI and the query `status`; not on record."""
        self._perdure.run.report(how_far)
        self._perdure.recorder.describe()

    def ask_for_reconciliation(self, why: str) -> None:
        """Something is odd: a reconciliation is to look at this entity, once the grace time has passed.

        Nothing waits for it, and nothing of it stands in the history; lost with its worker, it is not made.

        Args:
            why: one line, for the record; no personal data.
        """
        self._perdure.ask_for_reconciliation(why)

    async def cancelling(self, asked: OperatorRequest) -> None:
        """What it does between a cancel that ended its `run` and the state in which it ends; override it.

        It may wait, and perform effects, such as to tell others. Like `run` it may be started from its top: what is on
        record is not done again. It is not asked where the cancel came before `run` had begun.
        """

    async def continue_as_new(self) -> NoReturn:
        """Go on in a new run, with `run` started from its top. Waits do this by themselves when it is time.

        Await it in `run`, in a state that is not final; it waits for updates and attempts under way.
        """
        await inside(self._perdure.waiter.continue_as_new)

    @property
    def _perdure(self) -> Conductor:
        """Made when first needed: messages can arrive before `run` begins, and `__init__` is the author's."""
        conductor: Conductor | None = self.__dict__.get("__perdure")
        if conductor is None:
            conductor = self.__dict__["__perdure"] = Conductor(self)
        return conductor
