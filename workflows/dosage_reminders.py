"""Each patient's reminders: asleep until the next dose, which is a lifecycle of its own; woken by what changes.

`active <-> paused -> ended`; `unusable` while what the app says of the patient can't work.
"""

from __future__ import annotations

from enum import StrEnum

from temporalio import workflow

from activities.contracts.reminders import TURN, WITHDRAW, Ahead, Change, Memory, Patient, Turn, Withdrawal
from perdure import AppColumn, AppRows, Lifecycle, Request, hours, state

LOOK_AGAIN = hours(7 * 24)
"""What a zone's clocks do may be changed by law: so often a patient who sleeps for long looks ahead again."""
LONGEST = 120
"""History events after which it goes on in a new run, some twenty doses: what sleeps for years should be small, and a
worker that wakes it reads all of it again."""


class Reminding(StrEnum):
    """Where a patient's reminders are."""

    ACTIVE = "active"
    PAUSED = "paused"
    UNUSABLE = "unusable"
    ENDED = "ended"


@workflow.defn(name="dosage-reminders")
class DosageReminders(Lifecycle[Patient, Reminding]):
    """Starts the doses of one patient, when they are due."""

    states = (
        state(Reminding.ACTIVE, Reminding.PAUSED, Reminding.UNUSABLE, Reminding.ENDED),
        state(Reminding.PAUSED, Reminding.ACTIVE, Reminding.UNUSABLE, Reminding.ENDED),
        state(Reminding.UNUSABLE, Reminding.ACTIVE, Reminding.PAUSED, Reminding.ENDED, attention=True),
        state(Reminding.ENDED, cancelled=True),
    )
    steps = (TURN, WITHDRAW)
    mirror = AppColumn("reminders.patient", column="state")
    expects = AppRows("select id, reminders.input(p) as input from reminders.patient p where state = 'active'")
    if_ended = "again"

    def __init__(self) -> None:
        self._memory: Memory | None = None
        self.told: list[Change | str] = []

    @property
    def memory(self) -> Memory:
        """What it keeps; `run` recalls it first."""
        assert self._memory is not None
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory = memory

    def snapshot(self) -> Memory | None:
        """What is handed on, with what was told and is not dealt with yet: nobody tells it again."""
        return self._with_news(self._memory) if self._memory else None

    @workflow.run
    async def run(self, patient: Patient) -> None:
        """From the sign-up to the sign-off, or the end of the plan."""
        self.memory = self.recall(Memory) or Memory(patient=patient, upto=self.started_at)
        while True:
            if self.told:
                await self._go_before()
                self.memory, self.told = self._with_news(self.memory), []
                await self.save()  # what is new holds from now on, also for a run that has lost its history
            if self.memory.signed_off:
                await self._withdraw("the patient has signed off")
                return await self.enter(Reminding.ENDED, why="signed off")
            if self.memory.paused:
                await self._pause()
            elif await self._turn():
                return await self.enter(Reminding.ENDED, why="its plan is through")

    async def cancelling(self, asked: Request) -> None:
        """Withdraw the doses that have not gone yet."""
        await self._withdraw(f"cancelled by {asked.by}")

    @workflow.signal
    def changed(self, change: Change) -> None:
        """Something about the patient is new: plan, telephone, channel, zone, language, quiet hours."""
        self.told.append(change)

    @workflow.signal
    def pause(self) -> None:
        """Send nothing until further notice."""
        self.told.append("pause")

    @workflow.signal
    def resume(self) -> None:
        """Go on, with the next dose that comes due."""
        self.told.append("resume")

    @workflow.signal
    def sign_off(self) -> None:
        """It is over."""
        self.told.append("sign off")

    def _with_news(self, memory: Memory) -> Memory:
        for told in self.told:
            match told:
                case Change():
                    memory = memory.changed(told, workflow.now())
                case "pause":
                    memory = memory.model_copy(update={"paused": True})
                case "resume" if memory.paused:
                    memory = memory.model_copy(update={"paused": False, "upto": workflow.now()})
                case "sign off":
                    memory = memory.model_copy(update={"signed_off": True})
                case _:
                    pass  # it goes on already
        return memory

    async def _go_before(self) -> None:
        """Doses that are due by the old zone, and were only to wait so as not to come all at once, go before the new
        one counts: by it they might be due at another time, or not at all."""
        moves = any(isinstance(told, Change) and "zone" in told.model_fields_set for told in self.told)
        if moves and self.state is Reminding.ACTIVE:
            await self._start_due(at_once=True)

    async def _pause(self) -> None:
        if self.state is not Reminding.PAUSED:
            await self._withdraw("the patient has paused")
            await self.enter(Reminding.PAUSED)
        self.report("paused")
        await self.wait_for(lambda: bool(self.told))

    async def _turn(self) -> bool:
        """Start what is due, and sleep until more is, or something is told. True once the plan is through."""
        ahead = await self._start_due()
        if ahead.problem is not None:
            await self.enter(Reminding.UNUSABLE, why=ahead.problem)
            self.report(ahead.problem)
            await self.wait_for(lambda: bool(self.told))
            return False
        if self.state is not Reminding.ACTIVE:
            await self.enter(Reminding.ACTIVE, why="goes on")
        if ahead.more:
            return False
        if ahead.next_at is None:
            self.report("its plan is through")
            last = max((each.until for each in self.memory.open), default=workflow.now())
            return not await self.wait_for(lambda: bool(self.told), until=last)
        if workflow.info().get_current_history_length() > LONGEST and not self.told:
            await self.save()
            await self.renew()
        self.report(f"next at {ahead.next_at:%Y-%m-%d %H:%M:%S} UTC")
        await self.wait_for(lambda: bool(self.told), until=min(ahead.next_at, workflow.now() + LOOK_AGAIN))
        return False

    async def _start_due(self, *, at_once: bool = False) -> Ahead:
        memory, now = self.memory, workflow.now()
        turn = Turn(
            patient=memory.patient,
            upto=memory.upto,
            now=now,
            since=memory.since,
            moved=memory.moved,
            at_once=at_once,
        )
        ahead = await self.step(TURN, turn)
        still_open = tuple(each for each in (*memory.open, *ahead.started) if each.until > now)
        # What is due by the new zone is counted from where the old one was looked at by itself.
        upto = memory.upto if at_once else ahead.upto
        self.memory = memory.model_copy(update={"upto": upto, "open": still_open})
        return ahead

    async def _withdraw(self, why: str) -> None:
        """Doses under way that have not gone yet."""
        doses = tuple(each.id for each in self.memory.open if each.until > workflow.now())
        if doses:
            await self.step(WITHDRAW, Withdrawal(doses=doses, why=why))
