"""The app that runs `announcements`; its bodies stand apart from the lifecycle, whose sandbox imports few modules."""

from __future__ import annotations

from activities.telephony.contracts import Accepted, Channel, Notice
from activities.telephony.twilio.looking_up import look_up
from activities.telephony.twilio.resources import lifespan
from activities.telephony.twilio.sending import send
from perdure import App, Attempt, LookupContext
from tests.applications.telephony.announcements import CALL, FIND_CALL, FIND_SMS, SMS, Announce


@SMS.performs
async def send_sms(notice: Notice, attempt: Attempt) -> Accepted:
    return await send(Channel.SMS, notice, attempt)


@CALL.performs
async def place_call(notice: Notice, attempt: Attempt) -> Accepted:
    return await send(Channel.CALL, notice, attempt)


@FIND_SMS.answers
async def find_sms(notice: Notice, question: LookupContext) -> Accepted | None:
    return await look_up(Channel.SMS, notice, question)


@FIND_CALL.answers
async def find_call(notice: Notice, question: LookupContext) -> Accepted | None:
    return await look_up(Channel.CALL, notice, question)


app = App(
    lifecycles=[Announce],
    effects=[send_sms, place_call, find_sms, find_call],
    lifespan=lifespan,
    commands={"telephony": "workers.telephony.commands:commands"},
)
