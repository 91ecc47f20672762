"""Right code that the type checker must accept, and mistakes that it must catch: each line of those says its code.

Never imported: `tests/unit/test_types.py` hands it to mypy with the marks taken off. An unused mark is an error too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    AskFirst,
    Attempt,
    Client,
    Dedupe,
    Done,
    Effect,
    Escalate,
    Lifecycle,
    Lookup,
    LookupContext,
    NotDone,
    NotPerformed,
    Repeat,
    state,
)
from perdure.testing import After, Calls, WhenBlocked, WorkerLost, rehearse


class Mail(BaseModel):
    to: str


class Accepted(BaseModel):
    queue_id: str


class Notice(StrEnum):
    PENDING = state("pending", within=timedelta(minutes=5))
    SENT = state("sent", final=True)


class Other(StrEnum):
    SENT = "sent"


class Memory(BaseModel):
    count: int = 0


FIND = Lookup[Mail, Accepted]("find-in-log")
FIND_NUMBER = Lookup[Mail, int]("find-number")
SEND = Effect[Mail, Accepted](
    "send",
    timeout=timedelta(seconds=20),
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=30), otherwise=Escalate()),
)
RING = Effect[str, int](
    "ring", timeout=timedelta(seconds=20), doubt=Dedupe(window=timedelta(minutes=10), otherwise=Repeat())
)

Effect[Mail, Accepted]("a", timeout=20, doubt=Repeat())  # type: ignore[arg-type]
Effect[Mail, Accepted]("b", timeout=timedelta(seconds=20))  # type: ignore[call-arg]
ASK_FOR_NUMBER = AskFirst(FIND_NUMBER, visibility_delay=timedelta(seconds=1))
Effect[Mail, Accepted]("c", timeout=timedelta(seconds=20), doubt=ASK_FOR_NUMBER)  # type: ignore[arg-type]
Effect[str, Accepted]("d", timeout=timedelta(seconds=20), doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=1)))  # type: ignore[arg-type]
Dedupe(window=timedelta(minutes=10), otherwise=Dedupe(window=timedelta(minutes=1)))  # type: ignore[arg-type]


@SEND.performs
async def send(mail: Mail, attempt: Attempt) -> Accepted:
    return Accepted(queue_id=f"{mail.to} {attempt.key.token} {attempt.remaining:g}")


@FIND.answers
async def find(mail: Mail, question: LookupContext) -> Accepted | None:
    return Accepted(queue_id=question.key) if question.attempts else None


@SEND.performs  # type: ignore[arg-type]
async def takes_another_input(mail: str, attempt: Attempt) -> Accepted:
    return Accepted(queue_id=mail)


@SEND.performs  # type: ignore[arg-type]
async def gives_another_receipt(mail: Mail, attempt: Attempt) -> int:
    return 1


@SEND.performs  # type: ignore[arg-type]
async def wants_no_attempt(mail: Mail) -> Accepted:
    return Accepted(queue_id="")


@SEND.performs  # type: ignore[arg-type]
def is_not_async(mail: Mail, attempt: Attempt) -> Accepted:
    return Accepted(queue_id="")


@FIND.answers  # type: ignore[arg-type]
async def finds_something_else(mail: Mail, question: LookupContext) -> str | None:
    return None


state("sent", leads_to="pending")  # type: ignore[arg-type]


@workflow.defn(name="right")
class Right(Lifecycle[Mail, Notice]):
    effects = (SEND, RING)

    @workflow.run
    async def run(self, mail: Mail) -> None:
        memory = self.restore(Memory) or Memory()
        match await self.perform(SEND, mail, entering=Notice.PENDING):
            case Done(receipt):
                return await self.enter(Notice.SENT, why=f"{receipt.queue_id} {memory.count}")
            case NotPerformed(why, in_doubt):
                await self.enter(self.state, why=why if in_doubt else None)
                said = await self.retry_requested()
                await self.enter(Notice.SENT, why=said.by)


@workflow.defn(name="wrong")
class Wrong(Lifecycle[Mail, Notice]):
    effects = (SEND, "ring")  # type: ignore[assignment]

    @workflow.run
    async def run(self, mail: str) -> None:  # type: ignore[override]
        await self.perform(SEND, "bob@example.org")  # type: ignore[misc]
        await self.perform(RING, 5)  # type: ignore[misc]
        await self.perform(FIND, mail)  # type: ignore[arg-type]
        await self.perform(RING, "door", entering=Other.SENT)  # type: ignore[arg-type]
        await self.enter(Notice.SNET)  # type: ignore[attr-defined]
        await self.enter(Other.SENT)  # type: ignore[arg-type]
        await self.enter("sent")  # type: ignore[arg-type]
        end = await self.perform(RING, "door")
        print(end.receipt)  # type: ignore[union-attr]
        self.enter(Notice.SENT)  # type: ignore[unused-coroutine]
        match await self.perform(SEND, Mail(to="bob")):  # type: ignore[exhaustive-match]
            case Done(receipt):
                print(receipt.queue)  # type: ignore[attr-defined]
        self.restore(str)  # type: ignore[type-var]


async def starts(client: Client) -> None:
    handle = await client.start(Right, 7, Mail(to="bob"))
    await handle.wait(timeout=timedelta(seconds=5))
    await client.start(Right, 7, "bob")  # type: ignore[misc]
    await client.start(Right, 7)  # type: ignore[call-arg]


async def rehearses() -> None:
    seen = await rehearse(Right, Mail(to="bob"), {SEND: [WorkerLost()], FIND: [Accepted(queue_id="4Q")]})
    script: Calls = {
        SEND: [NotDone("busy"), Accepted(queue_id="4Q")],
        RING: [1],
        FIND: [None, After(timedelta(seconds=1), None)],
    }
    await rehearse(Right, Mail(to="bob"), script, allow_unused=True)
    wrong_script: Calls = {SEND: 1}  # type: ignore[dict-item]
    await rehearse(Right, Mail(to="bob"), wrong_script)
    reached: list[Notice] = seen.states
    sent: Mail = seen.inputs(SEND)[0]
    print(reached, sent, seen.calls(FIND), seen.end is Notice.SENT)
    await rehearse(Right, "bob", {})  # type: ignore[misc]
    seen.calls("send")  # type: ignore[arg-type]
    wrong: list[Other] = seen.states  # type: ignore[assignment]
    number: int = seen.inputs(SEND)[0]  # type: ignore[assignment]
    print(wrong, number, [WhenBlocked(seen)])  # type: ignore[arg-type]


bound: list[Callable[..., object]] = [send, find]
