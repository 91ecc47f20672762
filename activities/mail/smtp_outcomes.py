"""The meaning of each end of a conversation with a mail server for the mail: one table for all of them.

Sources: RFC 5321 (3.1, 3.8, 4.2, 4.5.3.2, 6.1), RFC 3463 and RFC 4954 (enhanced codes), RFC 3207, RFC 7504.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import Enum, StrEnum
from typing import Final

from perdure import InDoubt, NotDone, Refused

OURS_PAUSE: Final = timedelta(minutes=15)
"""How long to wait when the server objects to us and not to the mail: an operator has to act first."""


class Stage(StrEnum):
    """The step that the client was waiting for."""

    CONNECT = "connecting"
    GREETING = "the greeting"
    HELLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"
    CONTENT = "sending the content"
    END = "the end of data"


class End(Enum):
    """How the conversation ended at that stage."""

    LATER = "4yz"
    NO = "5yz"
    ODD = "a reply that fits neither the stage nor the protocol"
    LOST = "the connection was lost"
    SILENCE = "no reply in time"


class Verdict(Enum):
    """The meaning of an end for the mail."""

    AGAIN = "not done; tried again by the retry policy"
    OURS = "not done, and no mail will be until an operator acts; again after `OURS_PAUSE`"
    REFUSED = "refused: this mail will never be accepted"
    DOUBT = "in doubt: the server may have accepted it"


_AGAIN, _OURS, _REFUSED, _DOUBT = Verdict.AGAIN, Verdict.OURS, Verdict.REFUSED, Verdict.DOUBT

# Before the final dot, the server must discard the mail (RFC 5321, 3.8): certainly not done.
# After it, a reply of 4yz or 5yz, 421 included, means that the server took no responsibility (4.2.5, 6.1); no
# reply, or an unreadable one, means nothing. A 5yz before the mail is named (MAIL) is about us: refusing
# each mail for a wrong password would turn one mistake into thousands of mails that somebody has to send
# again.
TABLE: Final[dict[Stage, dict[End, Verdict]]] = {
    stage: {end: verdict for end, verdict in zip(End, row, strict=True) if verdict is not None}
    for stage, row in {
        #               4yz     5yz       odd     lost    silence
        Stage.CONNECT: (None, None, None, _AGAIN, _AGAIN),
        Stage.GREETING: (_AGAIN, _OURS, _AGAIN, _AGAIN, _AGAIN),
        Stage.HELLO: (_AGAIN, _OURS, _AGAIN, _AGAIN, _AGAIN),
        Stage.STARTTLS: (_AGAIN, _OURS, _AGAIN, _AGAIN, _AGAIN),
        Stage.AUTH: (_AGAIN, _OURS, _AGAIN, _AGAIN, _AGAIN),
        Stage.MAIL: (_AGAIN, _REFUSED, _AGAIN, _AGAIN, _AGAIN),
        Stage.RCPT: (_AGAIN, _REFUSED, _AGAIN, _AGAIN, _AGAIN),
        Stage.DATA: (_AGAIN, _REFUSED, _AGAIN, _AGAIN, _AGAIN),
        Stage.CONTENT: (None, None, None, _AGAIN, _AGAIN),
        Stage.END: (_AGAIN, _REFUSED, _DOUBT, _DOUBT, _DOUBT),
    }.items()
}

# 5yz at MAIL and later that are about us all the same: commands and parameters that the server does not have
# (RFC 5321, 4.2.2), a login that is missing, wrong or too weak (RFC 4954, 6), a server that takes no mail
# (RFC 7504).
_OUR_CODES = {502, 503, 504, 521, 530, 534, 535, 538, 555}
# X.7.8 to X.7.14: login and encryption. Not X.7.1: servers give it for any policy, most often for this
# sender, recipient or content; an unwanted repeat would go on for ever.
_OUR_STATUS = re.compile(r"5\.7\.(?:8|9|10|11|12|13|14)")
_STATUS = re.compile(r"5\.(?:5\.1|7\.(?:8|9|10|11|12|13|14))")
_STATUS = re.compile(r"[245]\.\d{1,3}\.\d{1,3}\b")
_QUEUED = (
    re.compile(r"\bqueued as ([0-9A-Za-z._-]+)"),  # Postfix
    re.compile(r"\bid=([0-9A-Za-z-]+)"),  # Exim
    re.compile(r"^(?:2\.\d\.\d )?([0-9A-Za-z]{6,40}) [Mm]essage accepted"),  # Sendmail, OpenSMTPD
    re.compile(r"^(?:2\.\d\.\d )?O[Kk]:? +([0-9A-Za-z._-]{8,})"),  # Gmail, Amazon SES
)
_LONGEST = 200  # characters of a reply that are kept


def verdict_of_reply(stage: Stage, code: int, text: str) -> Verdict:
    """The outcome of the mail after an unexpected reply.

    Args:
        code: the three digits, or anything else if the reply had none.
        text: the rest of it.
    """
    end = {4: End.LATER, 5: End.NO}.get(code // 100, End.ODD)
    verdict = TABLE[stage][end]
    if verdict is Verdict.REFUSED and stage is not Stage.END and _is_about_us(code, text):
        return Verdict.OURS
    return verdict


def has_one_code(reply: bytes) -> bool:
    """Whether the lines of the first reply in these bytes have one code, as RFC 5321, 4.2.1 requires."""
    codes = set()
    for line in reply.split(b"\n"):
        codes.add(line[:3])
        if line[3:4] != b"-":
            break
    return len(codes) == 1


def outcome(verdict: Verdict, why: str) -> NotDone | Refused | InDoubt:
    """The exception that reports `verdict`.

    Args:
        why: one line without personal data.
    """
    match verdict:
        case Verdict.AGAIN:
            return NotDone(why)
        case Verdict.OURS:
            return NotDone(why, retry_after=OURS_PAUSE)
        case Verdict.REFUSED:
            return Refused(why)
        case Verdict.DOUBT:
            return InDoubt(why)


def queue_id_in(text: str) -> str:
    """The queue id that the last reply names; empty if none is known to stand there."""
    return next((found[1] for pattern in _QUEUED if (found := pattern.search(text))), "")


def masked(text: str, *addresses: str) -> str:
    """A reply fit for logs: one printable line, without mail addresses or the local parts of `addresses`."""
    line = "".join(character if character.isprintable() else " " for character in text)
    line = re.sub(r"<[^>]*>|\S+@\S+", "<...>", line)
    for address in addresses:
        local = re.escape(address.rpartition("@")[0])
        line = re.sub(rf"(?i)(?<!\w){local}(?!\w)", "<...>", line)
    return " ".join(line.split())[:_LONGEST]


def _is_about_us(code: int, text: str) -> bool:
    status = _STATUS.match(text)
    return code in _OUR_CODES or (status is not None and _OUR_STATUS.fullmatch(status[0]) is not None)
