"""Takes a day through in seconds: from one moment at which something is due to the next, on the time-skipping server.

Patients who are due at one moment go together. Time stands by while they do, and goes on when all of them are through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import asyncpg
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from infra.demos.comments import say
from infra.demos.reminders_patients import LOST, LOST_FOR_GOOD, NEW_YORK, Change, Day, Expected
from infra.demos.reminders_record import reference
from infra.telephony.faults import Fault, Report
from infra.telephony.server import TelephonyServer

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

PATIENCE = 300.0
"""Seconds of ours after which it gives up on what is due at one moment."""
IN_PASSING = 0.4
"""Seconds of ours that what is due is given, before time goes on a little for what waits to be tried again."""
A_MOMENT, A_LITTLE = timedelta(seconds=1), timedelta(seconds=5)


class Passing:
    """One day.

    Args:
        day: what is to happen.
        environment: the time-skipping server.
        connection: the app's database.
        telephony: the provider.
        scope: first part of workflow ids.
    """

    def __init__(
        self,
        day: Day,
        environment: WorkflowEnvironment,
        connection: Connection,
        telephony: TelephonyServer,
        scope: str,
    ) -> None:
        self.day = day
        self._environment, self._connection, self._telephony = environment, connection, telephony
        self._scope = scope
        self._away = False

    async def sign_up(self) -> None:
        """Insert the patients' rows; each starts its reminders in the same transaction."""
        for patient in self.day.patients:
            row = patient.row(self.day.date)
            places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
            await self._connection.execute(
                f"insert into reminders.patient ({', '.join(row)}) values ({places})", *row.values()
            )
        for patient in self.day.patients:
            while await self._how_far(patient.id) is None:
                await asyncio.sleep(0.02)

    async def _how_far(self, patient: str) -> str | None:
        """The progress that its reminders report, such as when the next dose is due."""
        handle = self._environment.client.get_workflow_handle(f"{self._scope}:dosage-reminders/{patient}")
        try:
            status: dict[str, Any] = await handle.query("status")
        except RPCError as error:
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):
                return None  # it is not delivered yet, or has not begun
            raise
        how_far: str | None = status["how_far"]
        return how_far

    async def pass_by(self) -> None:
        """From the sign-up to the last dose's end."""
        faults = {each.due - A_LITTLE: each.fault for each in self.day.doses if each.fault}
        changes = {each.at: each for each in self.day.changes}
        for moment in self._moments(faults, changes):
            await self.go_to(moment)
            if moment in faults:
                await self._order(faults[moment])
            if moment in changes:
                await self._change(changes[moment])
            if moment in self.day.outage:
                await self._turn(away=moment == self.day.outage[0])
            await self._settled()

    async def go_to(self, moment: datetime) -> None:
        """Let time go on until a second after `moment`."""
        left = (moment + A_MOMENT - await self._environment.get_current_time()).total_seconds()
        if left > 0:
            await self._environment.sleep(left)

    def _moments(self, *more: Iterable[datetime]) -> Iterator[datetime]:
        due = {moment for each in self.day.doses for moment in (each.due, each.rests)}
        last = max(each.until for each in self.day.doses)
        yield from sorted({*due, *self.day.outage, *(each for some in more for each in some), last})

    async def _order(self, fault: str) -> None:
        await self._telephony.reports.idle()  # they would take what is ordered
        # What is lost for good is answered when the provider is away already.
        self._telephony.orders.order(Fault.DELAY_AFTER if fault == LOST_FOR_GOOD else Fault.RESET_AFTER)
        if fault != LOST:
            self._telephony.orders.order_reports(Report.MISSING, Report.MISSING)

    async def _change(self, change: Change) -> None:
        ahead = (await self._environment.get_current_time() - datetime.now(UTC)).total_seconds()
        await self._connection.execute(
            "create or replace function reminders.clock() returns timestamptz language sql volatile "
            f"as $$ select clock_timestamp() + interval '{ahead} s' $$"
        )
        settings = ", ".join(f"{name} = ${n}" for n, name in enumerate(change.columns, 2))
        await self._connection.execute(
            f"update reminders.patient set {settings} where id = $1", change.patient, *change.columns.values()
        )
        self._print(change.at, f"{change.patient} {change.note}")
        await self._until_received(change)

    async def _turn(self, *, away: bool) -> None:
        self._away = away
        while away and not all(self._is_asked_for(each) for each in self.day.doses if each.due == self.day.outage[0]):
            await asyncio.sleep(0.002)
        await (self._telephony.down() if away else self._telephony.up())
        at = self.day.outage[0] if away else self.day.outage[1]
        self._print(at, "[red]the provider is away[/red]: connections are refused" if away else "the provider is back")

    def _is_asked_for(self, dose: Expected) -> bool:
        return bool(self._telephony.references[reference(dose.id, "sms")])

    async def _settled(self) -> None:
        """Wait until what is due by now is through."""
        end, began = time.monotonic() + PATIENCE, time.monotonic()
        while (behind := await self._behind()) is not None:
            if time.monotonic() > end:
                raise TimeoutError(f"after {PATIENCE:.0f} s, {behind}")
            if time.monotonic() - began > IN_PASSING and await self._all_is_reported():
                await self.go_to(await self._environment.get_current_time() + A_LITTLE)
                began = time.monotonic()
            await asyncio.sleep(0.02)

    async def _all_is_reported(self) -> bool:
        """Whether Temporal has every callback: on a busy machine, time would else go on to the look-up before it."""
        await self._telephony.reports.idle()
        return await self._undelivered() is None

    async def _behind(self) -> str | None:
        """Something that is not where it should be by now."""
        now = await self._environment.get_current_time() - A_MOMENT
        rows = await self._connection.fetch("select id, state from perdure.entity where lifecycle = 'dose'")
        rows += await self._connection.fetch("select id, state from perdure.finished where lifecycle = 'dose'")
        states = {row["id"]: row["state"] for row in rows}
        for dose in self.day.doses:
            state = states.get(dose.id)
            if dose.due <= now and self._is_behind(dose, state, now):
                return f"the dose {dose.id} is {state or 'not on record'}"
        return await self._undelivered()

    def _is_behind(self, dose: Expected, state: str | None, now: datetime) -> bool:
        if state == "due":  # only while its patient sleeps
            return dose.rests <= now
        if state in ("sending", "accepted"):  # only while nobody can be reached
            return not self._away or dose.until + A_LITTLE <= now
        return state is None

    async def _until_received(self, change: Change) -> None:
        """Wait until the reminders have acted on it: they take a moment, which must not become half an hour."""
        acted = "acknowledged > 0" if "zone" in change.columns else "state <> 'active'"
        open_still = f"select from perdure.entity where lifecycle = 'dosage-reminders' and id = $1 and not ({acted})"
        while await self._connection.fetchval(f"select exists ({open_still})", change.patient):
            await asyncio.sleep(0.02)

    async def _undelivered(self) -> str | None:
        waits = await self._connection.fetchval("select lifecycle || ' ' || id from perdure.outbox limit 1")
        return waits and f"{waits} waits for its delivery"

    def _print(self, at: datetime, what: str) -> None:
        there = at.astimezone(ZoneInfo(NEW_YORK))
        say(f"[dim]{at.astimezone(UTC):%H:%M} UTC, {there:%H:%M} in New York:[/dim] {what}")
