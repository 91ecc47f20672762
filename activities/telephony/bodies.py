"""Sends notices by text messages and voice calls: one request, no retry of its own; and looks up accepted ones.

It speaks Twilio's REST API of 2010-04-01. The code is in `activities/telephony/twilio`.
"""

from __future__ import annotations

from activities.telephony.contracts import (
    FIND_PLACED_CALL,
    FIND_SMS,
    PLACE_CALL,
    SEND_SMS,
    Accepted,
    Channel,
    Notice,
)
from activities.telephony.settings import telephony_settings
from activities.telephony.twilio.looking_up import look_up
from activities.telephony.twilio.sending import send
from perdure import Attempt, LookupContext

telephony_settings()  # a worker with a wrong setting must not start


@SEND_SMS.performs
async def send_sms(notice: Notice, attempt: Attempt) -> Accepted:
    """Hand a text message over to the provider."""
    return await send(Channel.SMS, notice, attempt)


@PLACE_CALL.performs
async def place_call(notice: Notice, attempt: Attempt) -> Accepted:
    """Hand a call over to the provider."""
    return await send(Channel.CALL, notice, attempt)


@FIND_SMS.answers
async def find_sms(notice: Notice, question: LookupContext) -> Accepted | None:
    """Ask the provider's list of messages."""
    return await look_up(Channel.SMS, notice, question)


@FIND_PLACED_CALL.answers
async def find_placed_call(notice: Notice, question: LookupContext) -> Accepted | None:
    """Ask the provider's list of calls."""
    return await look_up(Channel.CALL, notice, question)
