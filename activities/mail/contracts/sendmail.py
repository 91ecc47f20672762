"""Letters of the table `mailing`, and the contracts to hand a mail to `sendmail` and to look it up.

Handed over means: the program ended with 0, so the mail is in the queue of this machine's mail system.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from activities.mail.contracts.mail import MAIL_TIMEOUT, MAIL_VISIBILITY_DELAY, Accepted, Mail
from perdure import AskFirst, Effect, Escalate, Lookup


class Kind(StrEnum):
    """The doubt policy of a mail, for hand-overs whose outcome is unknown."""

    AT_LEAST_ONCE = "at_least_once"
    """Send it again: for mail that is harmless twice and worthless late, such as a login code."""
    EXACTLY_ONCE = "exactly_once"
    """Ask Postfix's log and queue; where they can't answer, a person."""


class Letter(BaseModel):
    """One row of the app's table `mailing`: a mail to one recipient, not yet looked at.

    What is wrong with an address or a header is reported by the lifecycle, in its state, and not by whoever
    inserts the row. Other columns of the row are left out.

    Attributes:
        kind: the doubt policy.
        sender, recipient, subject, body, sender_name, reply_to, headers: as in `Mail`.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    sender: str
    recipient: str
    subject: str
    body: str
    sender_name: str | None = None
    reply_to: str | None = None
    headers: dict[str, str] = {}

    def mail(self) -> Mail:
        """The mail.

        Raises:
            ValidationError: none can be made of it.
        """
        return Mail(**self.model_dump(exclude={"kind"}))


def sendmail_contracts(
    *, timeout: timedelta, visibility_delay: timedelta, tries: int = 40
) -> tuple[Effect[Mail, Accepted], Lookup[Mail, Accepted]]:
    """The pair `sendmail` and `find-sent-mail`, with durations of your own.

    Args:
        timeout: the longest that the program may run; then it is killed.
        visibility_delay: how long after that the mail system may still be writing its log.
        tries: how often in a row the look-up may fail to answer before a person has to; 40 are some ten minutes,
            in which a mail system that was stopped mostly is back.
    """
    find = Lookup[Mail, Accepted]("find-sent-mail", timeout=timedelta(seconds=20))
    # Two misses: between the queue and the log a mail may be in neither for as long as syslog takes.
    doubt = AskFirst(find, visibility_delay=visibility_delay, misses=2, tries=tries, otherwise=Escalate())
    return Effect[Mail, Accepted]("sendmail", timeout=timeout, doubt=doubt), find


SENDMAIL, FIND_SENT_MAIL = sendmail_contracts(timeout=MAIL_TIMEOUT, visibility_delay=MAIL_VISIBILITY_DELAY)
