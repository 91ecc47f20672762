"""The Message-ID by which a mail is found again: nobody without the secret of the application can make it.

`python -m activities.mail.message_id KEY` prints what is before its @, for whoever looks for a mail by hand.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.parser import BytesHeaderParser
from email.policy import compat32

from activities.mail.contracts.addresses import ascii_domain
from activities.mail.contracts.mail import Mail
from activities.mail.settings import mail_settings
from activities.mail.smtp_outcomes import OURS_PAUSE
from perdure import LookupContext, NotDone, Settings
from perdure.contracts import Key
from perdure.errors import InvalidSetting

CLOCKS = timedelta(hours=1)
"""By how much the mail server's clock may be off the database's."""
FORGED = (
    "somebody has forged it, or addresses are rewritten, or a clock is wrong; look at it, and resolve the doubt by hand"
)
_MISSING = "PERDURE_MAIL_SECRET is not set: make one by openssl rand -base64 32, the same for each worker"


def token_of(key: Key) -> str:
    """The part of the Message-ID before the @: 40 characters of [0-9a-f], the same for every attempt.

    Raises:
        NotDone: there is no secret to make it with.
    """
    return tokens_of(key)[0]


def tokens_of(key: Key) -> tuple[str, ...]:
    """The same with each secret of `PERDURE_MAIL_SECRET`, the one in use first.

    Raises:
        NotDone: there is none.
    """
    if not (secrets := mail_settings().secrets):
        raise NotDone(_MISSING, retry_after=OURS_PAUSE)
    return tuple(token_with(secret, key) for secret in secrets)


def token_with(secret: str, key: Key) -> str:
    """The same with this secret: HMAC-SHA256, cut to 160 bits."""
    return hmac.digest(secret.encode(), b"message-id\0" + key.encode(), hashlib.sha256).hex()[:40]


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[None]:
    """Let no worker start that could send no mail.

    Raises:
        InvalidSetting: there is no secret.
    """
    if not mail_settings().secrets:
        raise InvalidSetting(_MISSING)
    yield


@dataclass(frozen=True, slots=True)
class Sought:
    """The mail that a look-up searches for.

    Attributes:
        tokens: the possible parts of its Message-ID before the @.
        since: when its first attempt began, by the database's clock.
        sender, recipient: of its envelope, in lower case; None where a log may spell it in another way.
    """

    tokens: tuple[str, ...]
    since: datetime
    sender: str | None = None
    recipient: str | None = None

    @classmethod
    def by(cls, mail: Mail, question: LookupContext) -> Sought:
        """The mail of a question.

        Raises:
            NotDone: there is no secret to make its Message-ID with.
        """
        return cls(tokens_of(question.key), question.first_at, comparable(mail.sender), comparable(mail.recipient))

    @property
    def earliest(self) -> datetime:
        """Any mail from before this time is another one, also if a clock is wrong."""
        return self.since - CLOCKS

    def is_named_by(self, header: bytes) -> bool:
        """Whether the one `Message-ID:` of a header is its own."""
        found = BytesHeaderParser(policy=compat32).parsebytes(header).get_all("Message-ID", [])
        return len(found) == 1 and str(found[0]).strip().startswith(tuple(f"<{each}@" for each in self.tokens))

    def may_be(self, *, sender: str | None, recipients: set[str], at: datetime | None) -> bool:
        """Whether a mail of this envelope, at this time, can be it; None or nothing where that is not known."""
        return not (
            (None not in (sender, self.sender) and sender != self.sender)
            or (recipients and self.recipient is not None and self.recipient not in recipients)
            or (at is not None and at < self.earliest)
        )


def comparable(address: str) -> str | None:
    """An address as it is compared; None where a log may spell it in another way, as it is not ASCII."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{ascii_domain(domain)}".lower() if local.isascii() else None


if __name__ == "__main__":
    sys.stdout.write("\n".join(tokens_of(Key(sys.argv[1]))) + "\n")
