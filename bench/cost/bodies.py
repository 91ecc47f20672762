"""Bodies of our two ways, and the apps: `perdure worker bench.cost.bodies:by_activity` and `...:inline`."""

from __future__ import annotations

from activities.mail.contracts.mail import Accepted, Mail
from bench.cost.contracts import FIND, FIND_INLINE, SEND, SEND_INLINE
from bench.cost.letters import hand_over
from bench.cost.lifecycles import ByActivity, Inline
from perdure import App, Attempt, LookupContext


@SEND.performs
async def send(mail: Mail, attempt: Attempt) -> Accepted:
    """Hand the mail over."""
    return await _send(mail, attempt)


@SEND_INLINE.performs
async def send_inline(mail: Mail, attempt: Attempt) -> Accepted:
    """Hand the mail over."""
    return await _send(mail, attempt)


@FIND.answers
async def find(mail: Mail, question: LookupContext) -> Accepted | None:
    """Never asked: nothing is in doubt here."""
    raise NotImplementedError


@FIND_INLINE.answers
async def find_inline(mail: Mail, question: LookupContext) -> Accepted | None:
    """Never asked: nothing is in doubt here."""
    raise NotImplementedError


async def _send(mail: Mail, attempt: Attempt) -> Accepted:
    reply = await hand_over(mail.sender, mail.recipient, mail.subject, mail.body, f"{attempt.key.token}@blog.example")
    return Accepted(queue_id=reply.rpartition(" ")[2], reply=reply)


by_activity = App(lifecycles=[ByActivity], effects=[send, find])
inline = App(lifecycles=[Inline], effects=[send_inline, find_inline])
