"""What every lifecycle answers: the updates of an operator, the query `status`, and the signals of perdure's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.contracts.effects import problem
from perdure.contracts.outcomes import Status
from perdure.contracts.sizes import ELSEWHERE, LARGEST_RECEIPT, size_of
from perdure.errors import NotNow
from perdure.workflow.conduct import Conductor
from perdure.workflow.leaving import until
from perdure.workflow.messages import MESSAGE, Message, hand_over
from perdure.workflow.requests import Request, Resolution, RetryRequest, SendAgain
from perdure.workflow.rules import closing, ended, parked, refuse_if_over
from perdure.workflow.status import LifecycleStatus

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle


class Answering:
    """The part of a `Lifecycle` that others talk to; nothing of it can be overridden."""

    @workflow.update
    async def resolve(self, said: Resolution) -> str:
        """Say what became of an effect in doubt."""
        self._perdure.heard()
        conductor, performance = self._perdure, parked(self._perdure, said.effect)
        performance.resolution = said
        await until(lambda: performance.resolved is not None or conductor.leaving or conductor.overtaken)
        if performance.resolved is None:
            # Of Temporal's own kind: past the validator any other exception would fail the workflow task for ever.
            raise ApplicationError(closing(conductor) or "nothing came of it", type=NotNow.__name__)
        return performance.resolved

    @resolve.validator
    def _check_resolve(self, said: Resolution) -> None:
        refuse_if_over(self._perdure)
        performance = parked(self._perdure, said.effect)
        if performance.resolution is not None:
            raise NotNow(f"{performance.slot} is being resolved by {performance.resolution.by} right now")
        if said.outcome not in (Status.DONE, Status.NOT_DONE, Status.ABANDONED):
            raise NotNow(f"outcome={said.outcome.value!r}: say done, not_done or abandoned")
        if said.outcome is Status.DONE:
            if (size := size_of(said.receipt)) > LARGEST_RECEIPT:
                raise NotNow(f"the receipt has {size} bytes, and may have {LARGEST_RECEIPT}: {ELSEWHERE}")
            try:
                performance.effect.receipt.validate_python(said.receipt)
            except ValueError as error:
                raise NotNow(f"the receipt does not fit what {performance.slot} declares: {problem(error)}") from error

    @workflow.update
    async def retry_now(self, asked: RetryRequest) -> str:
        """Go on at once: with the next attempt, or from where it waits for somebody to ask."""
        self._perdure.heard()
        conductor = self._perdure
        conductor.look = True
        if conductor.waiting_for_retry and conductor.retry is None:
            conductor.retry = asked
        for performance in conductor.performances.values():
            performance.hurry = performance.next_at is not None
        return f"goes on from {conductor.state}"

    @retry_now.validator
    def _check_retry_now(self, asked: RetryRequest) -> None:
        conductor = self._perdure
        refuse_if_over(conductor)
        if conductor.stands:
            return
        if conductor.waiting_for_retry:
            anew = {"Abandoned", "DifferentInput"}
            blocked = [key for key, how in conductor.ended.items() if how.kind in anew]
            if blocked and len(blocked) == len(conductor.ended):
                raise NotNow(f"{blocked[0]} was given up, so a retry would make no call: use send_again")
            if conductor.refused and not asked.send_refused:
                slots = ", ".join(sorted(conductor.refused))
                raise NotNow(
                    f"{slots} was refused, and this retry is not to send it again: use send_again, or retry it by name"
                )
            return
        if waiting := [each.slot for each in conductor.performances.values() if each.parked]:
            raise NotNow(f"{waiting[0]} is in doubt: nobody knows whether it happened, so use resolve")
        if not any(each.next_at for each in conductor.performances.values()):
            raise NotNow(f"nothing waits for a retry in state {conductor.state!r}")

    @workflow.update
    async def send_again(self, asked: SendAgain) -> str:
        """Send an effect anew that ended without being done: new key, so the other side sees a new request."""
        self._perdure.heard()
        conductor, key = self._perdure, ended(self._perdure, asked.effect)
        slot = conductor.ended.pop(key).slot
        conductor.refused.discard(slot)
        conductor.again[slot] = conductor.again.get(slot, 0) + 1
        conductor.retry = asked
        return f"{slot} goes anew"

    @send_again.validator
    def _check_send_again(self, asked: SendAgain) -> None:
        refuse_if_over(self._perdure)
        if not self._perdure.waiting_for_retry:
            raise NotNow(f"nothing waits to be sent again in state {self._perdure.state!r}")
        ended(self._perdure, asked.effect)

    @workflow.update
    async def cancel(self, asked: Request) -> str:
        """End it: no new attempt is begun, no wait goes on. What is under way or in doubt is settled first."""
        self._perdure.heard()
        self._perdure.request_cancel(asked)
        return "will be cancelled as soon as nothing is under way"

    @cancel.validator
    def _check_cancel(self, asked: Request) -> None:
        conductor = self._perdure
        refuse_if_over(conductor)
        if conductor.states.cancelled is None:
            raise NotNow(f"{conductor.entity.lifecycle} declares no state with cancelled=True to end in")
        if conductor.cancel is not None:
            raise NotNow(f"{conductor.cancel.by} has asked for that already")
        if waiting := [each.slot for each in conductor.performances.values() if each.parked]:
            raise NotNow(f"{waiting[0]} is in doubt: resolve it first, as abandoned if need be")

    @workflow.query
    def status(self) -> LifecycleStatus:
        """Where it is, and what it waits for."""
        return self._perdure.status()

    @workflow.signal(name="perdure-wake")
    def _wake(self, key: str) -> None:
        """An outcome came late: whoever performs `key` reads the fence again."""
        self._perdure.look = True
        if performance := self._perdure.performances.get(key):
            performance.poked = True

    @workflow.signal(name="perdure-mirror")
    async def _mirror_again(self, by: str) -> None:
        """The mirror does not show what this run has done: it is to write it again."""
        await self._perdure.show_again(by)

    @workflow.signal(name=MESSAGE)
    async def _receive(self, message: Message) -> None:
        """A message from the outbox; one that is delivered again is heard once."""
        if self._perdure.hear(message.ordinal):
            await hand_over(self._lifecycle, message)

    @property
    def _perdure(self) -> Conductor:
        """Made when first needed: messages can arrive before `run` begins, and `__init__` is the author's."""
        conductor: Conductor | None = self.__dict__.get("__perdure")
        if conductor is None:
            conductor = self.__dict__["__perdure"] = Conductor(self._lifecycle)
        return conductor

    @property
    def _lifecycle(self) -> Lifecycle[Any, Any]:
        return cast("Lifecycle[Any, Any]", self)
