"""The application of dosage reminders, whose first worker to start a dose dies before it has reported that."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from activities.reminders.contracts.reminders import TURN, Ahead, Turn
from activities.reminders.doses import take_turn, withdraw_doses
from activities.reminders.resources import lifespan
from activities.telephony.bodies import find_placed_call, find_sms, place_call, send_sms
from perdure import App, StepContext
from workflows.reminders.dosage_reminders import DosageReminders
from workflows.reminders.dose import DoseReminder


@TURN.takes
async def take_turn_and_die(turn: Turn, occasion: StepContext) -> Ahead:
    """As `take_turn`; once, the process is killed when a dose is committed."""
    ahead: Ahead = await take_turn(turn, occasion)
    died = Path(os.environ["DIED"])
    if ahead.started and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return ahead


app = App(
    lifecycles=[DosageReminders, DoseReminder],
    effects=[take_turn_and_die, withdraw_doses, send_sms, find_sms, place_call, find_placed_call],
    lifespan=lifespan,
)
