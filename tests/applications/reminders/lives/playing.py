"""Plays a life: the `run` of the patient's lifecycle itself and its steps, on a clock that jumps; no server, no SDK.

What Temporal gives is played here, plainly: waits, states, snapshots, runs that go on in new ones, histories that are
lost, steps whose answer is lost, workers that are away. `exploring` plays lives in the simulation of the core.
"""

from __future__ import annotations

import json
import random
import types
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from activities.reminders.contracts.reminders import Change, Patient, Since
from activities.reminders.doses import take_turn, withdraw_doses
from activities.reminders.resources import Reminders
from perdure import Entity, StepContext
from tests.applications.reminders.lives.lives import Life
from workflows.reminders import dosage_reminders
from workflows.reminders.dosage_reminders import DosageReminders, Reminding

PATIENT = "p"


@dataclass
class Records:
    """What the steps of a patient's lifecycle have put on record.

    Attributes:
        started: doses by id: when that was, and the dose.
        not_started: by rule and local time: when that was, what became of it, and why.
        withdrawn: when, and the ids.
    """

    started: dict[str, tuple[datetime, Any]] = field(default_factory=dict)
    not_started: dict[tuple[str, datetime], tuple[datetime, str, str]] = field(default_factory=dict)
    withdrawn: list[tuple[datetime, list[str]]] = field(default_factory=list)
    states: list[tuple[datetime, str, str | None]] = field(default_factory=list)

    now: datetime = datetime.min

    async def execute(self, query: str, *given: Any) -> None:
        """As a pool of connections; what is there stays."""
        if "perdure.start" in query:
            for row in json.loads(given[0]):
                self.started.setdefault(row["id"], (self.now, row["input"]))
        elif "not_start" in query:
            for row in json.loads(given[1]):
                name = row["rule"], datetime.fromisoformat(row["due"])
                self.not_started.setdefault(name, (self.now, row["state"], row["why"]))
        else:
            self.withdrawn.append((self.now, given[0]))


class _Gone(Exception):
    """The run is over: another one goes on."""


@types.coroutine
def _wait(until: datetime | None) -> Generator[datetime | None, None, None]:
    yield until


class _Server:
    """In place of `temporalio.workflow` and of the conductor."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.length = 0

    def now(self) -> datetime:
        return self._player.now.replace(tzinfo=UTC)

    def info(self) -> _Server:
        return self

    def get_current_history_length(self) -> int:
        self.length += 12
        return 10_000 if self._player.chance.random() < self._player.life.renews else self.length


class Player:
    """Plays one life; `records` are what is on record at its end."""

    def __init__(self, life: Life) -> None:
        self.life, self.now, self.records = life, life.start, Records(now=life.start)
        self.chance = random.Random(f"player {life.seed}")
        self.ended = False
        self._occasion = StepContext(Entity("dosage-reminders", PATIENT), Reminders(self.records, None))  # type: ignore[arg-type]
        self._state, self._heard, self._kept = Reminding.ACTIVE.value, 0, 0
        self._saved: str | None = None
        self._messages = [
            (life.works(arrives), name, given) for arrives, name, given in messages_of(life, arrived=True)
        ]

    def play(self) -> Records:
        """Play it to its end."""
        losses = [self.life.works(each) for each in self.life.loses]
        temporal_client = _Server(self)
        with patch.object(dosage_reminders, "workflow", temporal_client):
            while not self.ended and self.now < self.life.end:
                temporal_client.length = 0
                self._run(self._made(), losses)
        return self.records

    def _run(self, one: DosageReminders, losses: list[datetime]) -> None:
        run = DosageReminders.run.__wrapped__(one, given_by(self.life))  # type: ignore[attr-defined]
        try:
            while True:
                self._hear(one)
                until = run.send(None)
                if not self._sleep(until, losses):
                    run.close()
                    return
        except StopIteration:
            self.ended = True
        except _Gone:
            return

    def _sleep(self, until: datetime | None, losses: list[datetime]) -> bool:
        """Until then or the next message; False if the run is gone by then."""
        wakes = [self.life.end]
        if until is not None:
            wakes.append(self.life.works(until.astimezone(UTC).replace(tzinfo=None)))
        if self._heard < len(self._messages):
            wakes.append(self._messages[self._heard][0])
        if losses and losses[0] <= min(wakes):
            self.now = self.records.now = max(self.now, losses.pop(0))
            self._heard = self._kept  # what no snapshot holds is delivered again
            return False
        self.now = self.records.now = max(self.now, min(wakes))
        return self.now < self.life.end

    def _hear(self, one: DosageReminders) -> None:
        while self._heard < len(self._messages) and self._messages[self._heard][0] <= self.now:
            _, name, given = self._messages[self._heard]
            getattr(one, name)(*given)
            self._heard += 1

    def _made(self) -> DosageReminders:
        one = DosageReminders()
        one.__dict__["__perdure"] = types.SimpleNamespace(
            run=types.SimpleNamespace(
                state=self._state,
                started_at=self.life.start.replace(tzinfo=UTC),
                entity=Entity("dosage-reminders", PATIENT),
            )
        )

        async def step(contract: Any, given: Any) -> Any:
            body = take_turn if contract.name == "take-turn" else withdraw_doses
            order = contract.input.validate_json(contract.input.dump_json(given))
            while self.chance.random() < 0.05:
                await body(order, self._occasion)  # its answer is lost
            said = await body(order, self._occasion)
            return contract.receipt.validate_json(contract.receipt.dump_json(said))

        async def enter(state: Reminding, why: str | None = None) -> None:
            self._state = one.__dict__["__perdure"].run.state = state.value
            self.records.states.append((self.now, state.value, why))
            await save()

        async def save() -> None:
            kept = one.snapshot()
            self._saved, self._kept = kept.model_dump_json() if kept else None, self._heard

        async def continue_as_new() -> None:
            await save()
            raise _Gone

        async def wait_for(condition: Callable[[], bool], *, until: datetime | None = None) -> bool:
            while not condition():
                if until is not None and until.astimezone(UTC).replace(tzinfo=None) <= self.now:
                    return False
                await _wait(until)
            return True

        one.__dict__ |= {
            "step": step,
            "enter": enter,
            "save": save,
            "continue_as_new": continue_as_new,
            "wait_for": wait_for,
        }
        one.__dict__["report"] = lambda how_far: None
        one.__dict__["restore"] = lambda kind: kind.model_validate_json(self._saved) if self._saved else None
        return one


def given_by(life: Life) -> Patient:
    """The patient's lifecycle's input."""
    return Patient.model_validate({**life.terms.given(), "phone": "+12025550100"})


def messages_of(life: Life, *, arrived: bool = False) -> Iterator[tuple[datetime, str, tuple[Any, ...]]]:
    """When each message is sent, or arrives; its name, and what it carries."""
    before = life.terms
    for said in life.said:
        after, at = said.terms, said.at.replace(tzinfo=UTC)
        moment = said.arrives if arrived else said.at
        new = {name: value for name, value in after.given().items() if value != before.given()[name]}
        if after.over:
            yield moment, "sign_off", (Since(at=at),)
        elif after.paused != before.paused:
            yield moment, "pause" if after.paused else "resume", (Since(at=at),)
        elif new:
            yield moment, "changed", (Change.model_validate({**new, "at": at}),)
        before = after
