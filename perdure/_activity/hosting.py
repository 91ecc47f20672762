"""The activities that a worker runs for an app: one for each effect, look-up and step, and the bookkeeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, assert_never

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure import _faults as faults
from perdure._activity.execution import PATIENCE, Fitting, Pulse, ask, attempt, keep, take
from perdure._activity.observing import asking, attempting, taking
from perdure._wire.names import WRITE
from perdure._wire.orders import AttemptOrder, LookupOrder, Report, StepOrder
from perdure._wire.terms import all_terms, terms_of
from perdure._wire.writes import Answer, Store, Write
from perdure.app import App, Contract
from perdure.contracts.attempt import boot_clock
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import Dedupe, Repeat
from perdure.contracts.steps import Step
from perdure.errors import DatabaseUnavailable, NotThisDatabase

_SETTLED = (EffectStatus.DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED)


class TemporalHost:
    """The surroundings of an execution in a Temporal activity; see `execution.Host`."""

    def __init__(self, grace: float, resources: Any = None) -> None:
        self._grace = grace
        self._resources = resources
        self._info = activity.info()
        self._stop: asyncio.Future[None] | None = None
        self._gives_way = False

    def heartbeat(self, progress: Any) -> None:
        activity.heartbeat(progress)

    def stopping(self) -> asyncio.Future[None]:
        # This event comes at once in both kinds of activity. The worker's stop does not even cancel a local one.
        self._stop = asyncio.create_task(self._shutdown())
        if self._gives_way:
            self._stop.cancel()
        return self._stop

    async def to_its_end(self, execution: Coroutine[Any, Any, Report], *, gives_way: bool) -> Report:
        """Await an execution to its end, even if it counts as lost in Temporal. Its late outcome is recorded too.

        Args:
            gives_way: whether the execution ends at once, because the workflow makes the next attempt without waiting.
        """
        running = asyncio.create_task(execution)
        while not running.done():
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:  # a heartbeat was late, or the grace time is over
                details = activity.cancellation_details()
                asked = details is not None and details.cancel_requested and not details.worker_shutdown
                # If a person requested the lifecycle's end, the call continues to its own end.
                if gives_way and not asked:
                    self._gives_way = True
                    if self._stop is not None:
                        self._stop.cancel()
        return running.result()

    async def _shutdown(self) -> None:
        await activity.wait_for_worker_shutdown()
        await asyncio.sleep(self._grace)

    @property
    def heartbeat_every(self) -> float | None:
        timeout = self._info.heartbeat_timeout
        return None if self._info.is_local or not timeout else timeout.total_seconds() / 3

    @property
    def stop_asked(self) -> bool:
        return activity.is_worker_shutdown()

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot_clock(self) -> float:
        return boot_clock()

    @property
    def resources(self) -> Any:
        return self._resources


class Activities:
    """Makes the activities of an app.

    Args:
        app: the contracts and bodies.
        store: returns the store, once the worker runs.
        scope: the scope of the app's database. An order for an entity of another scope is refused.
        grace: seconds that a call under way has to end when the worker stops.
        resources: returns the resources that bodies share, once the worker runs.
    """

    def __init__(
        self,
        app: App,
        store: Callable[[], Store],
        *,
        scope: str | None,
        grace: float,
        resources: Callable[[], Any] = lambda: None,
    ) -> None:
        self._app = app
        self._store = store
        self._scope = scope
        self._grace = grace
        self._resources = resources

    def all(self) -> list[Callable[..., Any]]:
        """Activity functions for a Temporal worker."""
        return [self._bookkeeping()] + [
            self._activity(contract, body, name)
            for contract, body in self._app.bodies.values()
            for name in contract.names
        ]

    def _activity(self, contract: Contract, body: Callable[..., Any], name: str) -> Callable[..., Any]:
        match contract:
            case Effect():
                return self._attempting(contract, body, name)
            case Lookup():
                return self._asking(contract, body, name)
            case Step():
                return self._taking(contract, body, name)
            case _:
                assert_never(contract)

    def _attempting(self, effect: Effect[Any, Any], body: Callable[..., Any], name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def run(order: AttemptOrder) -> Report:
            self._check(order.write, order.then)
            host = TemporalHost(self._grace, self._resources())
            usual = isinstance(effect.doubt, (Repeat, Dedupe))
            gives_way = usual if order.gives_way is None else order.gives_way
            making = host.to_its_end(attempt(effect, body, order, self._fitting(), host), gives_way=gives_way)
            report = self._with_terms(await attempting(effect, order, making), order.write)
            faults.point("before the report of", effect.name)
            return report

        return run

    def _asking(self, find: Lookup[Any, Any], body: Callable[..., Any], name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def run(order: LookupOrder) -> Report:
            self._check(order.write)
            host = TemporalHost(self._grace, self._resources())
            report = await asking(find, order, ask(find, body, order, self._fitting(), host))
            report = self._with_terms(report, order.write)
            faults.point("before the report of", find.name)
            return report

        return run

    def _taking(self, step: Step[Any, Any], body: Callable[..., Any], name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def run(order: StepOrder) -> Report:
            self._check(order.write)
            host = TemporalHost(min(self._grace, 2.0), self._resources())
            making = host.to_its_end(take(step, body, order, self._fitting(), host), gives_way=True)
            report = await taking(step, order, making)
            faults.point("before the report of", step.name)
            return report

        return run

    def _bookkeeping(self) -> Callable[..., Any]:
        @activity.defn(name=WRITE)
        async def write(order: Write) -> Answer:
            self._check(order)
            patience = PATIENCE if activity.info().is_local else 25.0
            host = TemporalHost(min(self._grace, 2.0))
            committing: asyncio.Future[Any] = asyncio.create_task(keep(order, self._fitting(), patience))
            stop = host.stopping()
            try:
                async with Pulse(host).beating():
                    await asyncio.wait({committing, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not committing.done():
                    raise DatabaseUnavailable("the worker stopped before PostgreSQL answered")
                answer = self._answer_with_terms(committing.result(), order)
                faults.point("before the report of", order)
                return answer
            finally:
                stop.cancel()
                committing.cancel()

        return write

    def _check(self, *writes: Write | None) -> None:
        """Refuse an order that does not come from the entity's own workflow in this scope, before anything is done."""
        for each in writes:
            if each is None:
                continue
            entity, ordered_by = Entity(each.lifecycle, each.id), activity.info().workflow_id
            own = entity.workflow_id(self._scope)
            if not own == ordered_by == each.workflow_id:
                raise ApplicationError(
                    f"{entity} belongs to the workflow {own}: the order came from {ordered_by or 'no workflow'}, "
                    "and nothing was done",
                    type=NotThisDatabase.__name__,
                    non_retryable=True,
                )

    def _with_terms(self, report: Report, order: Write) -> Report:
        """The report with the terms of an unsettled effect, so that the history holds them beside the outcome."""
        effect = self._effect(order)
        if effect is None or (report.effect is not None and report.effect.status in _SETTLED):
            return report
        return report.model_copy(update={"terms": terms_of(effect)})

    def _answer_with_terms(self, answer: Answer, order: Write) -> Answer:
        if order.input is not None:  # the first write of a run that the relay, which passes the terms, did not start
            effects = self._app.lifecycle(order.lifecycle).effects
        else:
            effect = self._effect(order)
            effects = (effect,) if effect and answer.effect and answer.effect.status not in _SETTLED else ()
        return answer.model_copy(update={"terms": all_terms(effects)}) if effects else answer

    def _fitting(self) -> Store:
        return Fitting(self._store(), self._named)

    def _effect(self, order: Write) -> Effect[Any, Any] | None:
        return self._named(order.fence.effect.partition("/")[0]) if order.fence else None

    def _named(self, name: str) -> Effect[Any, Any] | None:
        contract = self._app.contract(name)
        return contract if isinstance(contract, Effect) else None
