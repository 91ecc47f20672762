"""Each patient's reminders: asleep until the next dose, which is a lifecycle of its own; woken by what changes.

`active <-> paused -> ended`; `completed` while no dose is left; `unusable` while what the app gave can't work.

A dose belongs to the plan, the zone and the pause that hold at the instant at which it is due. So what was due before
a change is dealt with as it was until then, however late the change arrives.
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
)
from perdure import AppColumn, Lifecycle, OperatorRequest, state
from perdure.contracts import AppRows, Erasure

LOOK_AGAIN = timedelta(hours=7 * 24)
"""What a zone's clocks do may be changed by law: so often a patient who sleeps for long looks ahead again."""
LONGEST = 120
"""History events after which it goes on in a new run, some twenty doses: what sleeps for years should be small, and a
worker that wakes it reads all of it again."""


class Reminding(StrEnum):
    """Where a patient's reminders are."""

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
        """What it keeps; `run` recalls it first."""
        assert self._memory is not None
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory = memory

    def snapshot(self) -> Memory | None:
        """What is handed on, with what was asked for and has not been done yet: nobody asks for it again."""
        return self._memory and self._memory.model_copy(update={"asked": tuple(self.asked)})

    @workflow.run
    async def run(self, patient: Patient) -> None:
        """From the sign-up to the sign-off."""
        self.memory = self.restore(Memory) or Memory(patient=patient, upto=Upto(at=self.started_at))
        self.asked[:0] = self.memory.asked
        while not self.memory.signed_off:
            if self.asked:
                await self._do(self.asked[0])
            else:
                await self._turn()
        await self.enter(Reminding.ENDED, why="signed off")

    async def cancelling(self, asked: OperatorRequest) -> None:
        """Withdraw the doses that have not gone yet."""
        await self._stop(workflow.now(), f"cancelled by {asked.by}")

    @workflow.signal
    def changed(self, change: Change) -> None:
        """Something about the patient is new: plan, telephone, channel, zone, language, quiet hours."""
        self._add(change, change=change)

    @workflow.signal
    def pause(self, since: Since | None = None) -> None:
        """Send nothing until further notice."""
        self._add(since, paused=True)

    @workflow.signal
    def resume(self, since: Since | None = None) -> None:
        """Go on, with the next dose that comes due."""
        self._add(since, paused=False)

    @workflow.signal
    def sign_off(self, since: Since | None = None) -> None:
        """It is over."""
        self._add(since, signed_off=True)

    def _add(self, since: Since | Change | None, **asked: Any) -> None:
        now = workflow.now()
        at = since.at if since is not None and since.at is not None else now
        self.asked.append(Asked(at=min(at, now), **asked))

    async def _do(self, asked: Asked) -> None:
        """First what was due before it, as that was until then."""
        if asked.stops is not None:
            await self._stop(asked.at, asked.stops)
        elif self.memory.concerned_by(asked):
            await self._reckon(asked.at, self._withheld())
        self.memory = self.memory.after(self.asked.pop(0))
        await self.save()  # it holds from now on, also for a run that has lost its history

    def _withheld(self) -> str | None:
        """Why nothing that is due is to be sent."""
        if self.memory.paused:
            return "the patient had paused"
        return next((each.stops for each in self.asked if each.stops), None)

    async def _stop(self, at: datetime, why: str) -> None:
        """Nothing that was due by then goes any more, if it has not gone yet."""
        await self._reckon(at, self._withheld() or why)
        doses = tuple(each.id for each in self.memory.open if each.until > workflow.now())
        if doses:
            await self.step(WITHDRAW, Withdrawal(doses=doses, why=why))

    async def _reckon(self, until: datetime, withheld: str | None) -> None:
        """Deal with all that was due by then. From then on something else may be due, so it can't be put off: what
        can't be sent is put on record. What was dealt with that came due later is looked at again."""
        while (ahead := await self._deal(until, withheld)).more:
            pass
        if ahead.problem is not None and withheld is None:
            await self._reckon(until, ahead.problem)

    async def _turn(self) -> None:
        """Deal with what is due, and sleep until more is, or something is asked for."""
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
