"""Plays lives in the simulation of the core: the SDK's own workflow code on a virtual clock, with faults of every kind.

Workers are killed, frozen and cut off, workflow tasks are lost, PostgreSQL is away, Temporal loses what it knows, runs
go on in new ones; see [docs/proof.md](../../docs/proof.md#exploration). Nobody cancels, and Temporal's clock is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, timedelta
from random import Random
from typing import Any

from activities.reminders.contracts.reminders import TURN, WITHDRAW, Patient, Turn, Withdrawal
from activities.reminders.doses import take_turn, withdraw_doses
from activities.reminders.resources import Reminders
from perdure import App, Entity, StepContext
from perdure.testing.exploring.explorer import quiet
from perdure.testing.exploring.scenario import Scenario
from perdure.testing.exploring.scenarios import scenario
from perdure.testing.exploring.subject import Subject, bodies_of
from perdure.testing.exploring.virtual_time import VirtualLoop, VirtualTime
from perdure.testing.exploring.world import LONGEST, World
from tests.applications.reminders.lives.judge import Difference, differences
from tests.applications.reminders.lives.lives import Author, Life, Said
from tests.applications.reminders.lives.playing import PATIENT, Records, given_by, messages_of
from workflows.reminders.dosage_reminders import DosageReminders

HOURS = 36
"""How long a life is: the simulation plays two days."""
SLACK = timedelta(minutes=30)
"""By how much faults may delay it."""
_NOT_HERE = ("cancel", "cancel through Temporal", "Temporal's clock")


class ShortLife(Author):
    """Writes lives of a day and a half, which end with a sign-off."""

    def life(self) -> Life:
        """The life of the seed."""
        given = replace(super().life(), away=(), loses=(), renews=0.0)
        middle = given.said[0].at if given.said else given.start + timedelta(hours=HOURS / 2)
        start = (middle - timedelta(hours=HOURS / 2)).replace(second=0, microsecond=0)
        end = start + timedelta(hours=HOURS)
        said = tuple(
            replace(each, arrives=each.at + SLACK)
            for each in given.said
            if start < each.at < end and not each.terms.over
        )
        last = replace(said[-1].terms if said else given.terms, over=True)
        return replace(given, start=start, end=end + 2 * SLACK, said=(*said, Said(end, end + SLACK, last)))


def explored(seed: int) -> list[Difference]:
    """What a life shows that is played with the faults of a scenario; both are made from the seed."""
    life = ShortLife(seed).life()
    records = Records(now=life.start)
    occasion = StepContext(Entity("dosage-reminders", PATIENT), Reminders(records, None))  # type: ignore[arg-type]

    def turn(given: Turn) -> Any:
        records.now = world.loop.now.astimezone(UTC).replace(tzinfo=None)
        return _result(take_turn(given, occasion))

    def withdraw(given: Withdrawal) -> Any:
        records.now = world.loop.now.astimezone(UTC).replace(tzinfo=None)
        return _result(withdraw_doses(given, occasion))

    app = App([DosageReminders], bodies_of(DosageReminders))
    subject = Subject("dosage-reminders", {0: app, 1: app}, {TURN.name: turn, WITHDRAW.name: withdraw})
    world = _world(life, subject, _scenario(seed, given_by(life)))
    with quiet():
        findings = world.play(Entity("dosage-reminders", PATIENT))
    if findings:
        return [Difference(each.kind, each.what) for each in findings]
    return differences(life, records, slack=SLACK)


def _scenario(seed: int, given: Patient) -> Scenario:
    made = scenario(seed, given, [TURN, WITHDRAW])
    hours = Random(f"when {seed}")
    events = [replace(each, at=each.at + hours.random() * HOURS * 3600) for each in made.events]
    kept = sorted((each for each in events if each.what not in _NOT_HERE), key=lambda each: each.at)
    return replace(made, events=tuple(kept), restarts=0)


def _world(life: Life, subject: Subject, played: Scenario) -> World:
    class Lived(World):
        def take_loop(self) -> VirtualTime:
            return VirtualLoop(life.start.replace(tzinfo=UTC), LONGEST)

        def _until_over(self, entity: Entity) -> None:
            row = self.database.rows[entity.id]
            for at, name, given in messages_of(life):
                payload = given[0].model_dump(mode="json")
                self.loop.call_later((at - life.start).total_seconds(), self._say, row, name, payload)
            for minute in range(HOURS * 60):
                self.loop.call_later(60.0 * minute, self._somebody_works)
            super()._until_over(entity)

        def _say(self, row: Any, name: str, payload: Any) -> None:
            row.messages.append((name, payload))
            self.relay._deliver(row)  # type: ignore[attr-defined]

        def _somebody_works(self) -> None:
            if not any(each.takes_work for each in self.workers):
                self.start_worker()

    return Lived(subject, played, Counter())


def _result(body: Coroutine[Any, Any, Any]) -> Any:
    """What a body returns that waits for nothing."""
    try:
        body.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")
