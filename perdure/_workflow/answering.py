"""The handlers of every lifecycle: the updates of operators, the query `status`, and Perdure's own signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure._wire.messages import Message
from perdure._wire.names import MESSAGE, MIRROR, WAKE
from perdure._wire.requests import OperatorRequest, Resolution, RetryRequest, SendAgain
from perdure._wire.status import LifecycleStatus
from perdure._workflow.conductor import Conductor
from perdure._workflow.leaving import until
from perdure._workflow.ledger import first_slot_of
from perdure._workflow.messages import hand_over
from perdure._workflow.rules import closing, ended, parked, refuse
from perdure.contracts.dumping import load
from perdure.contracts.effects import first_problem
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.sizes import LARGEST_RECEIPT, unfit
from perdure.errors import NotNow


class Answering:
    """The handlers of a `Lifecycle`. A subclass cannot override them."""

    @workflow.update
    async def resolve(self, resolution: Resolution) -> str:
        """Resolve an effect in doubt."""
        await self._until_apart(self._check_resolve, resolution)
        self._perdure.waiter.update_came()
        run, performance = self._perdure.run, parked(self._perdure.run, resolution.effect)
        performance.resolve(resolution)
        under_way = run.effects.performances
        await until(lambda: performance.resolved is not None or performance.key not in under_way or run.overtaken)
        if performance.resolved is None:
            # An `ApplicationError`, because after the validator any other exception would fail the workflow task for
            # ever.
            raise ApplicationError(closing(run) or "nothing came of it", type=NotNow.__name__)
        return performance.resolved

    @resolve.validator
    def _check_resolve(self, resolution: Resolution) -> None:
        refuse(self._perdure.run)
        performance = parked(self._perdure.run, resolution.effect)
        if performance.resolution is not None:
            raise NotNow(f"{performance.slot} is being resolved by {performance.resolution.by} right now")
        if why := resolution.other_attempt(performance.slot, performance.known.effect.attempts):
            raise NotNow(why)
        if resolution.outcome not in (EffectStatus.DONE, EffectStatus.NOT_DONE, EffectStatus.ABANDONED):
            raise NotNow(f"outcome={resolution.outcome.value!r}: give done, not_done or abandoned")
        if resolution.outcome is EffectStatus.DONE:
            if why := unfit(resolution.receipt, LARGEST_RECEIPT):
                raise NotNow(f"the receipt {why}")
            try:
                load(performance.effect.receipt, resolution.receipt)
            except ValueError as error:
                raise NotNow(
                    f"the receipt does not fit what {performance.slot} declares: {first_problem(error)}"
                ) from error

    @workflow.update
    async def retry_now(self, asked: RetryRequest) -> str:
        """Continue at once: end a pause before the next attempt, or a wait for a retry."""
        await self._until_apart(self._check_retry_now, asked)
        self._perdure.waiter.update_came()
        run = self._perdure.run
        run.standstill.look()
        if run.requests.waits_for_retry and run.requests.retry is None:
            run.requests.for_retry(asked)
        for performance in run.effects.performances.values():
            performance.end_pause()
        return f"goes on from {run.state}"

    @retry_now.validator
    def _check_retry_now(self, asked: RetryRequest) -> None:
        run = self._perdure.run
        refuse(run)
        if run.standstill.stands:
            return
        effects = run.effects
        if run.requests.waits_for_retry:
            if key := effects.given_up():
                raise NotNow(f"{key} was given up, so a retry would make no call: use send_again")
            if effects.refused and not asked.send_refused:
                slots = ", ".join(sorted(effects.refused))
                raise NotNow(
                    f"{slots} was refused, and this retry is not to send it again: use send_again, or retry it by name"
                )
            return
        if waiting := [each.slot for each in effects.performances.values() if each.parked]:
            raise NotNow(f"{waiting[0]} is in doubt, so a retry could repeat it: use resolve")
        if not any(each.pausing for each in effects.performances.values()):
            raise NotNow(f"nothing waits for a retry in state {run.state!r}")

    @workflow.update
    async def send_again(self, asked: SendAgain) -> str:
        """Send an effect anew that ended without being done. Its new key makes it a new request for the other side."""
        await self._until_apart(self._check_send_again, asked)
        self._perdure.waiter.update_came()
        run = self._perdure.run
        key = ended(run, asked.effect)
        slot = run.effects.send_anew(key)
        run.requests.for_retry(asked, first_slot_of(key))
        return f"{slot} goes anew"

    @send_again.validator
    def _check_send_again(self, asked: SendAgain) -> None:
        refuse(self._perdure.run)
        run = self._perdure.run
        if not run.requests.waits_for_retry:
            raise NotNow(f"nothing waits to be sent again in state {run.state!r}")
        if run.requests.retry is not None:  # a workflow task that was lost may have begun an attempt for it
            raise NotNow(f"{run.requests.retry.by} has just requested a retry, which begins in a moment")
        ended(run, asked.effect)

    @workflow.update
    async def cancel(self, asked: OperatorRequest) -> str:
        """End the lifecycle: no new attempt begins, and no wait continues. Effects under way or in doubt are settled
        first."""
        await self._until_apart(self._check_cancel, asked)
        self._perdure.waiter.update_came()
        self._perdure.request_cancel(asked)
        return "will be cancelled as soon as nothing is under way"

    @cancel.validator
    def _check_cancel(self, asked: OperatorRequest) -> None:
        run = self._perdure.run
        refuse(run)
        if run.declared.cancelled is None:
            raise NotNow(f"{run.entity.lifecycle} declares no state with cancelled=True to end in")
        if run.requests.cancel is not None:
            raise NotNow(f"{run.requests.cancel.by} has already requested that")
        if waiting := [each.slot for each in run.effects.performances.values() if each.parked]:
            raise NotNow(f"{waiting[0]} is in doubt: resolve it first, as abandoned if need be")

    async def _until_apart(self, check: Callable[[Any], None], given: Any) -> None:
        """See `Waiter.until_apart`. What the validator has seen may have changed meanwhile."""
        if await self._perdure.waiter.until_apart():
            try:
                check(given)
            except NotNow as why:
                # Any other exception than this one would fail the workflow task for ever.
                raise ApplicationError(str(why), type=NotNow.__name__) from None

    @workflow.query
    def status(self) -> LifecycleStatus:
        """The present state, and the reason of the present wait."""
        return self._perdure.run.status()

    @workflow.signal(name=WAKE)
    def _wake(self, key: str) -> None:
        """An outcome came late: the performance of `key` reads the fence again."""
        self._perdure.waiter.look()
        self._perdure.run.standstill.look()
        if performance := self._perdure.run.effects.performances.get(key):
            performance.look_again()

    @workflow.signal(name=MIRROR)
    async def _mirror_again(self, by: str) -> None:
        """The mirror is behind this run: write the state again."""
        self._perdure.waiter.look()
        await self._perdure.mirror_again(by)

    @workflow.signal(name=MESSAGE)
    async def _receive(self, message: Message) -> None:
        """A message from the outbox. A message that is delivered twice is processed once."""
        self._perdure.waiter.look()
        if not self._perdure.run.accept_message(message):
            return
        if message.kind == "cancel":
            self._perdure.request_cancel(OperatorRequest.model_validate(message.payload))
        else:
            self._perdure.run.events.takes(message.read_at)
            await hand_over(self, message)

    @property
    def _perdure(self) -> Conductor:
        raise NotImplementedError
