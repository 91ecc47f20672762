"""Each patient's reminders: sleeps until the next dose, which is a lifecycle of its own, or until a change.

`active <-> paused -> ended`; `completed` while no dose is left; `unusable` while the app's data cannot be used.

A dose belongs to the plan, the zone and the pause at the instant at which it is due. So doses that were due before a
change are treated by the earlier data, however late the change arrives.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from temporalio import workflow

from activities.reminders.contracts.reminders import (
    TURN,
    WITHDRAW,
    Ahead,
    Asked,
    Change,
    Memory,
    Patient,
    Since,
    Turn,
    Upto,
    Withdrawal,
    bounded,
)
from perdure import AppColumn, Lifecycle, OperatorRequest, state
from perdure.contracts import AppRows, Erasure

LOOK_AGAIN = timedelta(hours=7 * 24)
"""Time after which a long sleep ends to look ahead again, because a law may change the clocks of a zone."""
LONGEST = 120
"""History events after which the lifecycle continues as new, about twenty doses: a workflow that sleeps for years
should be small, and a worker that wakes it reads the whole history again."""


class Reminding(StrEnum):
    """The states of a patient's reminders."""

    ACTIVE = "active"
    PAUSED = state("paused", leads_to=("active", "unusable", "completed"))
    UNUSABLE = state("unusable", leads_to=("active", "paused", "completed"), attention=True)
    COMPLETED = state("completed", leads_to=("active", "paused", "unusable"))
    ENDED = state("ended", cancelled=True)


@workflow.defn(name="dosage-reminders")
class DosageReminders(Lifecycle[Patient, Reminding]):
    """Starts the doses of one patient, when they are due."""

    steps = (TURN, WITHDRAW)
    mirror = AppColumn("reminders.patient", column="state")
    expects = AppRows("select id, reminders.input(p) as input from reminders.patient p where state = 'active'")
    erasure = Erasure(
        # Doses are `<patient>/<rule>/<due>`, and a patient's id may hold slashes; 0 comes after the slash.
        entities="""
            select lifecycle, id from perdure.ident
            where lifecycle = 'dose' and id > $1 || '/' and id < $1 || '0'
                and substring(id from '^(.*)/[^/]+/[^/]+$') = $1
        """,
        rows={
            "reminders.not_started": "delete from reminders.not_started where patient = $1",
            "reminders.patient": "delete from reminders.patient where id = $1",
        },
    )
    if_ended = "again"

    def __init__(self) -> None:
        self._memory: Memory | None = None
        self.asked: list[Asked] = []

    @property
    def memory(self) -> Memory:
        """The data that the lifecycle keeps; `run` restores it first."""
        assert self._memory is not None
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory = memory

    def snapshot(self) -> Memory | None:
        """The data for the next run, with the requests that are not executed yet, since nobody repeats them."""
        return self._memory and self._memory.model_copy(update={"asked": bounded(self.asked)})

    @workflow.run
    async def run(self, patient: Patient) -> None:
        """Send reminders from the sign-up to the sign-off."""
        restored = self.restore(Memory)
        self.memory = restored or Memory(patient=patient, upto=Upto(at=self.started_at), paused=patient.paused is True)
        self.asked[:0] = self.memory.asked
        while not self.memory.signed_off:
            if self.asked:
                await self._do(self.asked[0])
            else:
                await self._turn()
        await self.enter(Reminding.ENDED, why="signed off")

    async def cancelling(self, asked: OperatorRequest) -> None:
        """Withdraw the doses that were not sent yet."""
        await self._stop(workflow.now(), f"cancelled by {asked.by}")

    @workflow.signal
    def changed(self, change: Change) -> None:
        """Change data of the patient: plan, telephone, channel, zone, language, quiet hours."""
        self._add(change, change=change)

    @workflow.signal
    def pause(self, since: Since | None = None) -> None:
        """Send nothing until further notice."""
        self._add(since, paused=True)

    @workflow.signal
    def resume(self, since: Since | None = None) -> None:
        """Continue with the next dose that becomes due."""
        self._add(since, paused=False)

    @workflow.signal
    def sign_off(self, since: Since | None = None) -> None:
        """End the reminders."""
        self._add(since, signed_off=True)

    def _add(self, since: Since | Change | None, **asked: Any) -> None:
        now = workflow.now()
        at = since.at if since is not None and since.at is not None else now
        self.asked.append(Asked(at=min(at, now), **asked))

    async def _do(self, asked: Asked) -> None:
        """Execute a request, after the doses that were due before it, which are treated by the earlier data."""
        if asked.stops is not None:
            await self._stop(asked.at, asked.stops)
        elif self.memory.concerned_by(asked):
            await self._reckon(asked.at, self._withheld())
        self.memory = self.memory.after(self.asked.pop(0))
        await self.save()  # valid from now on, also for a run that has lost its history

    def _withheld(self) -> str | None:
        """Why no due dose is sent; None = doses are sent."""
        if self.memory.paused:
            return "the patient had paused"
        return next((each.stops for each in self.asked if each.stops), None)

    async def _stop(self, at: datetime, why: str) -> None:
        """Withdraw the doses that were due by then and were not sent yet."""
        await self._reckon(at, self._withheld() or why)
        doses = tuple(each.id for each in self.memory.open if each.until > workflow.now())
        if doses:
            await self.step(WITHDRAW, Withdrawal(doses=doses, why=why))

    async def _reckon(self, until: datetime, withheld: str | None) -> None:
        """Treat all doses that were due by then. Other data may apply after that, so this cannot be put off: a dose
        that cannot be sent is recorded. Doses that were treated already and became due later are treated again."""
        while (ahead := await self._deal(until, withheld)).more:
            pass
        if ahead.problem is not None and withheld is None:
            await self._reckon(until, ahead.problem)

    async def _turn(self) -> None:
        """Treat the due doses, and sleep until the next one, or a request."""
        ahead = await self._deal(workflow.now(), self._withheld())
        if ahead.more or self.asked:
            return
        await self._show(ahead)
        if workflow.info().get_current_history_length() > LONGEST and not self.asked:
            await self.save()
            await self.continue_as_new()
        until = None if ahead.next_at is None else min(ahead.next_at, workflow.now() + LOOK_AGAIN)
        await self.wait_for(lambda: bool(self.asked), until=until)

    async def _show(self, ahead: Ahead) -> None:
        how_far = ahead.problem or ("paused" if self.memory.paused else None)
        if ahead.problem is not None:
            await self.enter(Reminding.UNUSABLE, why=ahead.problem)
        elif self.memory.paused:
            await self._be(Reminding.PAUSED)
        elif ahead.next_at is None:
            await self._be(Reminding.COMPLETED, why="its plan is through")
        else:
            await self._be(Reminding.ACTIVE, why="goes on")
        asleep = "its plan is through" if ahead.next_at is None else f"next at {ahead.next_at:%Y-%m-%d %H:%M:%S} UTC"
        self.report(how_far or asleep)

    async def _be(self, state: Reminding, why: str | None = None) -> None:
        if self.state is not state:
            await self.enter(state, why=why)

    async def _deal(self, until: datetime, withheld: str | None) -> Ahead:
        memory, now = self.memory, workflow.now()
        turn = Turn(
            patient=memory.patient, upto=memory.upto, until=until, now=now, since=memory.since, withheld=withheld
        )
        ahead = await self.step(TURN, turn)
        self.memory = self.memory.following(ahead, now)
        return ahead
