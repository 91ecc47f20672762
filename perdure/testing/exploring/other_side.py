"""The other side in virtual time: it keeps count of what was done, and its count is the judge's.

How each call goes is written down beforehand, for each effect: a list of the words below, in the order of the calls.
Past its end every call is done at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.contracts.attempt import Attempt, LookupContext
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.outcomes import InDoubt, NotDone, Refused
from perdure.contracts.policies import AskFirst, Dedupe
from perdure.contracts.steps import Step, StepContext
from perdure.errors import DatabaseUnavailable
from perdure.testing.exploring.evidence import Account
from perdure.testing.exploring.judge import may_repeat
from perdure.testing.exploring.workers import Worker, current_worker

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World

SECRET = "ann@example.org"
"""Stands in every input and in what other code raises: it may be found in payloads, and nowhere else."""

CALLS = (
    "done",
    "refused",
    "not done",
    "no place",
    "later",
    "noted",
    "lost before",
    "lost after",
    "slow",
    "late",
    "killed before",
    "killed after",
    "frozen",
    "cut off after",
)
"""The ways in which a call of an effect can end.

`no place` = not done, and it counts as no attempt; `later` = not done, and it names a time; `noted` = the attempt notes
data for the look-up, is accepted, and its body has no word of that; `lost` = the connection breaks before or after it
was accepted; `slow` = accepted, and the reply takes some seconds; `late` = the bytes are accepted after the call;
`killed`, `frozen`, `cut off` = what happens to its worker.
"""

LOOKS = ("answers", "mute")
"""The ways in which a look-up can end."""


@dataclass
class Entry(Account):
    """The record of the other side about one key."""

    visible_at: float = 0.0
    receipt: Any = None
    receipt_json: Any = None


class OtherSide:
    """Plays the bodies of effects, look-ups and steps.

    Args:
        world: the loop and the workers.
        scripts: for each first name of an effect or look-up, how its calls go.
        receipts: makes the receipt of an effect from its input.
    """

    def __init__(
        self, world: World, scripts: Mapping[str, list[str]], receipts: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        self._world = world
        self._scripts = {name: list(script) for name, script in scripts.items()}
        self._receipts = receipts
        self.accounts: dict[str, Entry] = defaultdict(Entry)
        self._caused: dict[tuple[str, str], str] = {}
        """The performance that has done each effect, by generation and effect."""

    async def call(self, contract: Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any], given: Any, about: Any) -> Any:
        """Act as the body of a contract."""
        if isinstance(contract, Effect):
            return await self._perform(contract, given, about)
        if isinstance(contract, Lookup):
            return await self._answer(contract, given, about)
        return await self._take(contract, given, about)

    async def _perform(self, effect: Effect[Any, Any], given: Any, attempt: Attempt) -> Any:
        """One call of an effect."""
        world, worker, account = self._world, current_worker.get(), self.accounts[attempt.key]
        how, began = self._next(effect.identity, "done"), world.loop.time()
        account.calls += 1
        world.cover("call", f"{how} {effect.identity}")
        await self._wait(0.002)
        if how == "frozen":
            world.incidents.inject(worker, "freeze", effect.timeout.total_seconds() + world.span(20))
        elif how == "killed before":
            world.incidents.inject(worker, "kill", 3.0)
        await worker.here()
        if how == "no place":
            raise NotDone("no place was free", counts=False)
        if how == "noted":
            await self._note(attempt)
        attempt.before_first_byte()
        self._check_expiry(attempt.key, worker)
        if how == "later":
            raise NotDone("busy", retry_after=timedelta(seconds=world.span(40)))
        if how == "lost before":
            raise ConnectionError(f"connection lost before {SECRET} was read")
        if how in ("refused", "not done") and not self._drops_repeat(effect, account):
            raise Refused("refused") if how == "refused" else NotDone("busy")
        if how == "not done":  # a repeat that is turned away at the door, before anybody looks at its key
            raise NotDone("busy")
        if how == "late":
            left = attempt.remaining
            world.loop.call_later(left * 0.9, self._accept, effect, attempt.key, given, began)
            await self._wait(left + 10)
            raise ConnectionError("this reply came too late")
        receipt = self._accept(effect, attempt.key, given, began)
        if how == "killed after":
            world.incidents.inject(worker, "kill", 3.0)
        elif how == "cut off after":
            world.incidents.inject(worker, "cut off", world.span(30))
        await worker.here()
        if how == "noted":
            raise InDoubt("no word of it")
        if how == "lost after":
            raise RuntimeError(f"the reply about {SECRET} was lost")
        if how == "slow":
            await self._wait(world.span(1.6 * effect.timeout.total_seconds()))
            await worker.here()
        return receipt

    def _check_expiry(self, key: str, worker: Worker) -> None:
        """No attempt sends anything after the effect has expired, by its worker's clock or by a true one."""
        expires_at, now = self._world.observed.expires_at.get(key), min(self._world.loop.now, worker.now)
        if expires_at is not None and now > expires_at:
            self._world.found(
                "attempted after its expiry", f"{key}: {(now - expires_at).total_seconds():.1f} s after it"
            )

    async def _note(self, attempt: Attempt) -> None:
        attempt.heartbeat({"noted": attempt.number})
        try:
            await attempt.note({"number": attempt.number})
        except DatabaseUnavailable as error:
            raise NotDone("nothing was noted") from error

    async def _answer(self, find: Lookup[Any, Any], given: Any, question: LookupContext) -> Any:
        """One look-up."""
        worker = current_worker.get()
        how = self._next(find.identity, "answers")
        await self._wait(0.002)
        await worker.here()
        self._world.cover("look-up", f"{how} {find.identity}")
        if how == "mute":
            raise RuntimeError(f"no answer about {SECRET}")
        account = self.accounts[question.key]
        return account.receipt if account.done_at and self._world.loop.time() >= account.visible_at else None

    async def _take(self, step: Step[Any, Any], given: Any, occasion: StepContext) -> Any:
        """One step."""
        worker = current_worker.get()
        how = self._next(step.identity, "done")
        await self._wait(0.001)
        if how == "killed before":
            self._world.incidents.inject(worker, "kill", 3.0)
        await worker.here()
        if how != "done":
            raise RuntimeError(f"the step failed for {SECRET}")
        if (act := self._world.subject.acts.get(step.identity)) is not None:
            await act(self._world, given)
        return self._receipts[step.identity](given)

    def _accept(self, effect: Effect[Any, Any], key: str, given: Any, began: float) -> Any:
        account, now = self.accounts[key], self._world.loop.time()
        if self._drops_repeat(effect, account):
            return account.receipt
        receipt = self._receipts[effect.identity](given)
        account.policy = self._world.observed.policies.get(key, effect.doubt)
        account.done_at.append(now)
        account.done_by_calls_of.append(began)
        self._note_caused(effect, key, account)
        account.receipt = receipt
        account.receipt_json = effect.receipt.dump_python(account.receipt, mode="json")
        visibility_delay = effect.doubt.visibility_delay.total_seconds() if isinstance(effect.doubt, AskFirst) else 0.0
        account.visible_at = account.visible_at or now + self._world.span(visibility_delay)
        return account.receipt

    def _note_caused(self, effect: Effect[Any, Any], key: str, account: Entry) -> None:
        """The other side has done something, in the generation that the key names; sent again on purpose, it is the
        same."""
        _, of_round, what = key.split("/", 2)
        earlier = self._caused.setdefault((of_round, effect.identity), what.partition("~")[0])
        if effect.identity not in self._world.subject.once:
            return
        if earlier != what.partition("~")[0]:
            self._world.found("done twice", f"{effect.name}: as {earlier}, and again as {what}")
        elif len(account.done_at) > 1 and account.policy is not None and may_repeat(account.policy):
            self._world.found("done twice", f"{effect.name}: as {what}, by its policy {account.policy!r}")

    def _drops_repeat(self, effect: Effect[Any, Any], account: Entry) -> bool:
        if not isinstance(effect.doubt, Dedupe) or not account.done_at:
            return False
        return self._world.loop.time() - account.done_at[0] < effect.doubt.window.total_seconds()

    def _next(self, name: str, usual: str) -> str:
        script = self._scripts.get(name)
        return script.pop(0) if script else usual

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
