"""The application of dosage reminders: its lifecycles, the bodies of their effects, its commands and pages."""

from activities.reminders.doses import take_turn, withdraw_doses
from activities.reminders.resources import lifespan
from activities.telephony.bodies import find_placed_call, find_sms, place_call, send_sms
from perdure import App
from workflows.reminders.dosage_reminders import DosageReminders
from workflows.reminders.dose import DoseReminder

app = App(
    lifecycles=[DosageReminders, DoseReminder],
    effects=[take_turn, withdraw_doses, send_sms, find_sms, place_call, find_placed_call],
    lifespan=lifespan,
    commands={"telephony": "workers.telephony.commands:commands"},
    pages={"reminders": "workers.reminders.console:PAGES"},
)
