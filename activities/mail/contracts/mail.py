"""Mail: one message to one recipient, the server's receipt for it, and the contracts to send and find it.

Sending means handing over: the effect is done once the mail server has taken responsibility (RFC 5321, 4.2.5
    and 6.1).
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from activities.mail.contracts.addresses import check_address, check_header_name, check_line, check_text
from perdure import AskFirst, Effect, Escalate, Lookup
from perdure.errors import InvalidSetting

Address = Annotated[str, AfterValidator(check_address)]
HeaderName = Annotated[str, AfterValidator(check_header_name)]
Line = Annotated[str, Field(max_length=900), AfterValidator(check_line)]
Text = Annotated[str, Field(max_length=1_000_000), AfterValidator(check_text)]


class Mail(BaseModel):
    """One mail to one recipient. Each attempt sends the same bytes.

    Attributes:
        sender: address of the envelope (where bounces go) and of `From:`.
        recipient: the only recipient, also in `To:`.
        subject: one line, in any language.
        body: plain text.
        sender_name: the name beside the address in `From:`.
        reply_to: address for `Reply-To:`.
        headers: further headers, such as `List-Unsubscribe` or `Auto-Submitted`; values are one line of
            ASCII.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sender: Address
    recipient: Address
    subject: Line
    body: Text
    sender_name: Line | None = None
    reply_to: Address | None = None
    headers: dict[HeaderName, Annotated[Line, Field(pattern=r"^[ -~]*$")]] = {}


class Accepted(BaseModel):
    """The mail server's receipt: it has the mail and answers for it. It holds no address.

    Attributes:
        queue_id: the server's own name for the mail, for its log; empty if the server names none.
        reply: the server's last reply, addresses masked; empty if the log was the source.
        delivery: what log or queue knew of the mail's further way (`sent`, `deferred`, `bounced`, `expired`,
            `held`, `discarded`, or `queued` for not yet tried); None if they were not asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue_id: str
    reply: str = ""
    delivery: str | None = None


def mail_contracts(
    *, timeout: timedelta, visibility_delay: timedelta, inline: bool = False
) -> tuple[Effect[Mail, Accepted], Lookup[Mail, Accepted]]:
    """The pair `send-mail` and `find-in-mail-log`, with durations of your own.

    Args:
        timeout: the longest that one conversation with the mail server may take.
        visibility_delay: how long after that the server may still be writing its log.
        inline: run both in the workflow's own worker.
    """
    find = Lookup[Mail, Accepted]("find-in-mail-log", timeout=timedelta(seconds=20), inline=inline)
    doubt = AskFirst(find, visibility_delay=visibility_delay, otherwise=Escalate())
    return Effect[Mail, Accepted]("send-mail", timeout=timeout, doubt=doubt, inline=inline), find


def _duration(variable: str, default: float) -> timedelta:
    """Seconds from the environment.

    Read once, at import. Workflow code sees the value as the duration of activities and timers, and in the
    decision
    whether a miss counts yet: it is part of the deployed code like a constant, and changes with a deployment
        only.
    """
    given = os.environ.get(variable, "")
    try:
        duration = timedelta(seconds=float(given)) if given else timedelta(seconds=default)
    except (ValueError, OverflowError):
        duration = timedelta(0)
    if duration <= timedelta(0):
        raise InvalidSetting(f"{variable}={given!r}: give seconds above zero, such as {default:g}")
    return duration


MAIL_TIMEOUT, MAIL_VISIBILITY_DELAY = (
    _duration("PERDURE_MAIL_TIMEOUT", 20),
    _duration("PERDURE_MAIL_VISIBILITY_DELAY", 30),
)
SEND_MAIL, FIND_IN_MAIL_LOG = mail_contracts(timeout=MAIL_TIMEOUT, visibility_delay=MAIL_VISIBILITY_DELAY)
