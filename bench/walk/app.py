"""The three kinds: a mail without a receipt, a charge with a look-up and a receipt, a call that nobody can ask about.

The other sides lose their first answer each time, and look-ups don't answer. Whether it happened differs from one to
the next.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    App,
    AskFirst,
    Attempt,
    Done,
    Effect,
    Escalate,
    Lifecycle,
    Lookup,
    LookupContext,
    NotPerformed,
    state,
)

SECOND = timedelta(seconds=1)


class Wish(BaseModel):
    """What is to be done."""

    amount: int = 1


class Charge(BaseModel):
    """The provider's receipt."""

    charge: str
    amount: int


@dataclass
class OtherSide:
    """One of the three other sides.

    Attributes:
        done: how often each token was done.
        statement: the lines of its own list: the reference, and for a charge the receipt.
    """

    answered: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    statement: list[str] = field(default_factory=list)

    def do(self, attempt: Attempt, line: str) -> None:
        """Do it, or in half of the cases not, and lose the answer; the second time do it, and answer."""
        token, again = attempt.key.token, attempt.key.token in self.answered
        self.answered.add(token)
        attempt.before_first_byte()
        if again or hashlib.sha256(token.encode()).digest()[0] % 2:
            self.done[token] = self.done.get(token, 0) + 1
            self.statement.append(line)
        if not again:
            raise ConnectionResetError("the connection was closed")


MAIL, BANK, PHONE = OtherSide(), OtherSide(), OtherSide()
FIND_CHARGE = Lookup[Wish, Charge]("find-charge", timeout=SECOND)
SEND_MAIL = Effect[Wish, None]("send-mail", timeout=SECOND, doubt=Escalate())
CHARGE = Effect[Wish, Charge](
    "charge-card",
    timeout=SECOND,
    doubt=AskFirst(FIND_CHARGE, visibility_delay=SECOND, every=SECOND / 5, tries=2, otherwise=Escalate()),
)
CALL = Effect[Wish, None]("call-phone", timeout=SECOND, doubt=Escalate())


@SEND_MAIL.performs
async def send_mail(wish: Wish, attempt: Attempt) -> None:
    """Hand it to the mail server."""
    MAIL.do(attempt, attempt.key.token)


@CHARGE.performs
async def charge_card(wish: Wish, attempt: Attempt) -> Charge:
    """Charge the card."""
    charge = Charge(charge=f"ch_{attempt.key.token[:12]}", amount=wish.amount)
    BANK.do(attempt, f"{attempt.key.token}\t{charge.model_dump_json()}")
    return charge


@FIND_CHARGE.answers
async def find_charge(wish: Wish, question: LookupContext) -> Charge | None:
    """Ask the provider, which does not answer."""
    raise ConnectionRefusedError("503 Service Unavailable")


@CALL.performs
async def call_phone(wish: Wish, attempt: Attempt) -> None:
    """Ring."""
    PHONE.do(attempt, attempt.key.rpartition("/")[0])


class Way(StrEnum):
    """Where it is."""

    PENDING = state("pending", leads_to=("doing",))
    DOING = "doing"
    DONE = state("done", final=True)
    FAILED = state("failed", leads_to=("doing",), attention=True)


class _Once(Lifecycle[Wish, Way]):
    """Performs its effect until it is done."""

    async def do_it(self, wish: Wish) -> None:
        """Perform the first of its effects."""
        while True:
            match await self.perform(self.effects[0], wish, entering=Way.DOING):
                case Done():
                    return await self.enter(Way.DONE)
                case NotPerformed(why):
                    await self.enter(Way.FAILED, why=why)
                    await self.retry_requested()


@workflow.defn(name="letter")
class Letter(_Once):
    """A mail."""

    effects = (SEND_MAIL,)

    @workflow.run
    async def run(self, wish: Wish) -> None:
        """See the base class."""
        await self.do_it(wish)


@workflow.defn(name="order")
class Order(_Once):
    """A charge."""

    effects = (CHARGE,)

    @workflow.run
    async def run(self, wish: Wish) -> None:
        """See the base class."""
        await self.do_it(wish)


@workflow.defn(name="alarm")
class Alarm(_Once):
    """A call."""

    effects = (CALL,)

    @workflow.run
    async def run(self, wish: Wish) -> None:
        """See the base class."""
        await self.do_it(wish)


KINDS = {"letter": MAIL, "order": BANK, "alarm": PHONE}
app = App(lifecycles=[Letter, Order, Alarm], effects=[send_mail, charge_card, find_charge, call_phone])
