"""Money transfers as ordinary Temporal workflows: with effects of perdure, and with activities that are retried."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

with workflow.unsafe.imports_passed_through():
    import aiohttp
    from pydantic import BaseModel

    from perdure import AskFirst, Attempt, Dedupe, Escalate, LookupContext, NotDone, Refused, effect, lookup
    from perdure.errors import DeclarationError, InvalidInput
    from perdure.temporal import EffectInDoubt, EffectNotPerformed, EffectsPlugin, perform


class Transfer(BaseModel):
    """What a workflow is given; `fault` names what the bank does with a call."""

    cents: int
    fault: str = ""


@lookup(timeout=timedelta(seconds=5))
async def find_withdrawal(transfer: Transfer, context: LookupContext) -> str | None:
    async with aiohttp.ClientSession() as http, http.get(f"{_bank()}/{context.key.token}") as answer:
        return await answer.text() if answer.status == 200 else None


async def _pay(transfer: Transfer, attempt: Attempt) -> str:
    async with aiohttp.ClientSession() as http:
        attempt.before_first_byte()
        url = f"{_bank()}/{attempt.key.token}"
        async with http.post(url, json={**transfer.model_dump(), "key": attempt.key}) as answer:
            if answer.status == 503:
                raise NotDone("busy", retry_after=timedelta(milliseconds=50))
            if answer.status == 402:
                raise Refused("no funds")
            answer.raise_for_status()
            return await answer.text()


TIMEOUT = timedelta(seconds=float(os.environ.get("BANK_TIMEOUT", "5")))
"""Of each call. A busy machine must not reach it, and whoever is in doubt waits for it."""


@effect(doubt=AskFirst(find_withdrawal, timedelta(0)), timeout=TIMEOUT, heartbeat_timeout=TIMEOUT / 3)
async def withdraw(transfer: Transfer, attempt: Attempt) -> str:
    return await _pay(transfer, attempt)


@effect(doubt=Dedupe(window=timedelta(hours=1)), timeout=TIMEOUT, heartbeat_timeout=TIMEOUT / 3)
async def deposit(transfer: Transfer, attempt: Attempt) -> str:
    return await _pay(transfer, attempt)


@effect(
    doubt=Dedupe(window=timedelta(seconds=6), margin=timedelta(0)),
    timeout=timedelta(seconds=2),
    heartbeat_timeout=timedelta(seconds=1),
)
async def deposit_soon(transfer: Transfer, attempt: Attempt) -> str:
    return await _pay(transfer, attempt)


@effect(doubt=Escalate(), timeout=TIMEOUT, heartbeat_timeout=TIMEOUT / 3)
async def send_letter(transfer: Transfer, attempt: Attempt) -> str:
    return await _pay(transfer, attempt)


@activity.defn
async def pay_plainly(transfer: dict[str, Any]) -> str:
    async with aiohttp.ClientSession() as http:
        name = activity.info().workflow_id
        async with http.post(f"{_bank()}/{name}", json={**transfer, "key": f"/{name}~"}) as answer:
            return await answer.text()


def _bank() -> str:
    return os.environ["BANK_URL"]


@workflow.defn
class Withdraw:
    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        return await perform(withdraw, Transfer.model_validate(transfer))


@workflow.defn
class Deposit:
    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        return await perform(deposit, Transfer.model_validate(transfer), suffix="first")


@workflow.defn
class DepositSoon:
    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        return await perform(deposit_soon, Transfer.model_validate(transfer))


@workflow.defn
class Letter:
    """Waits for a person's word where nobody knows whether the letter was sent."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        try:
            return await perform(send_letter, Transfer.model_validate(transfer))
        except EffectInDoubt as doubt:
            await workflow.wait_condition(lambda: bool(self.word))
            return f"{self.word}: {doubt.key.rpartition('/')[2]}"
        except EffectNotPerformed as no:
            return f"not sent: {no.message}"

    @workflow.signal
    def settle(self, word: str) -> None:
        self.word = word


@workflow.defn
class Twice:
    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        given = Transfer.model_validate(transfer)
        return await perform(deposit, given, suffix="a") + await perform(deposit, given, suffix="b")


@workflow.defn
class Careless:
    """Gives arguments of which no key or time can be made, one after the other, and names what each is refused with."""

    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        given, refused = Transfer.model_validate(transfer), []
        wrong: list[dict[str, Any]] = [
            {"suffix": ""},
            {"suffix": 0},
            {"key": ""},
            {"expires_at": workflow.now().replace(tzinfo=None)},
            {"given": {"cents": "many"}},
        ]
        for each in wrong:
            try:
                await perform(deposit, **{"given": given, **each})
            except (DeclarationError, InvalidInput) as error:
                refused.append(str(error))
        return "\n".join(refused)


@workflow.defn
class Plain:
    """As most applications have it."""

    @workflow.run
    async def run(self, transfer: dict[str, Any]) -> str:
        return await workflow.execute_activity(
            pay_plainly, transfer, start_to_close_timeout=TIMEOUT, heartbeat_timeout=TIMEOUT / 3
        )


def make(client: Client, task_queue: str, *interceptors: Interceptor) -> Worker:
    """A worker for all of them."""
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[Withdraw, Deposit, DepositSoon, Letter, Twice, Careless, Plain],
        activities=[pay_plainly],
        plugins=[EffectsPlugin(withdraw, deposit, deposit_soon, send_letter, grace=1)],
        graceful_shutdown_timeout=timedelta(seconds=4),
        interceptors=interceptors,
    )
