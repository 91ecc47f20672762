"""Rehearsals and explorations send what a client sends: checked, and sealed where PERDURE_SEAL is on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import Effect, Escalate, Lifecycle, state
from perdure.encryption import Private
from perdure.errors import InvalidInput
from perdure.testing import At, ExplorationFailed, ScriptError, explore, rehearse
from tests.integration.crypto.fixtures import FIRST


class Letter(BaseModel):
    to: Private
    text: Private


class Ticket(BaseModel):
    number: int = 1
    note: str = ""


class Way(StrEnum):
    WAITING = "waiting"
    DOING = "doing"
    DONE = state("done", final=True)


SEND = Effect[Letter, Ticket]("send", timeout=timedelta(seconds=5), doubt=Escalate())
HOUR = timedelta(hours=1)


@workflow.defn(name="swapping")
class Swapping(Lifecycle[Letter, Way]):
    """Puts the text of one field into another, which no sealed text fits."""

    effects = (SEND,)

    @workflow.run
    async def run(self, letter: Letter) -> None:
        letter.to = letter.text
        await self.perform(SEND, letter, entering=Way.DOING)
        await self.enter(Way.DONE)


@workflow.defn(name="hearing")
class Hearing(Lifecycle[Ticket, Way]):
    """Ends with the first ticket or letter."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @workflow.signal
    def ticket(self, ticket: Ticket) -> None:
        self.heard.append(ticket)

    @workflow.signal
    def letter(self, letter: Letter) -> None:
        assert letter.to.sealed
        self.heard.append(letter)

    @workflow.run
    async def run(self, given: Ticket) -> None:
        await self.wait_for(lambda: bool(self.heard), until=self.started_at + timedelta(days=1))
        await self.enter(Way.DONE)


LETTER = Letter(to=Private("a"), text=Private("b"))


@pytest.fixture
def sealing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", FIRST)
    monkeypatch.setenv("PERDURE_SEAL", "true")


@pytest.mark.usefixtures("sealing")
async def test_a_sealed_text_in_another_field_fails_the_task_as_on_a_server() -> None:
    with pytest.raises(Exception, match="it is a Private of the field 'text'"):
        await rehearse(Swapping, LETTER, {SEND: [Ticket()]})
    with pytest.raises(ExplorationFailed, match="it is a Private of the field 'text'"):
        await asyncio.to_thread(explore, Swapping, LETTER, other_side={SEND: Ticket()}, runs=5)


@pytest.mark.usefixtures("sealing")
async def test_a_signal_is_sealed() -> None:
    seen = await rehearse(Hearing, Ticket(), {}, messages=[At(HOUR, "letter", LETTER)])
    assert (seen.states, seen.took) == ([Way.DONE], HOUR)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"number": "abc"}, "the payload of 'ticket' does not fit: number"),
        (Ticket(note="x" * 3_000_000), "Temporal accepts"),
    ],
)
async def test_a_signal_that_a_client_refuses_is_refused(payload: Any, why: str) -> None:
    with pytest.raises(ScriptError, match=why):
        await rehearse(Hearing, Ticket(), {}, messages=[At(HOUR, "ticket", payload)])


async def test_an_input_that_a_client_refuses_is_refused() -> None:
    large = Ticket(note="x" * 3_000_000)
    with pytest.raises(InvalidInput, match="the input has 3000025 bytes, and Temporal accepts 2000000"):
        await rehearse(Hearing, large, {}, messages=[At(HOUR, "ticket", Ticket())])
    with pytest.raises(ScriptError, match=r"given: .* the input has 3000025 bytes"):
        await asyncio.to_thread(explore, Hearing, large, runs=1)
