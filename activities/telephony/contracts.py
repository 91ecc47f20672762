"""Telephony: one notice to one telephone, as a text message or a voice call, and the contracts to send and find it.

Sending means handing over: the effect is done once the provider has accepted the message or the call, and has given it
a SID. What became of it later comes as a message, from its status callbacks (`Reported`).
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from perdure import AskFirst, Effect, Escalate, Lookup, RetryPolicy
from perdure.contracts import Key, RateLimit
from perdure.encryption import Private

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
"""A language tag (BCP 47), such as `en` or `es-MX`."""
Sid = Annotated[str, Field(pattern=r"^[A-Z]{2}[0-9a-f]{32}$")]
"""The provider's own name of a message (`SM...`) or a call (`CA...`)."""


_FAILED = frozenset({"undelivered", "failed", "canceled", "busy", "no-answer"})
_REACHED = frozenset({"delivered", "read", "completed"})


class Channel(StrEnum):
    """The way of a notice to a person."""

    SMS = "sms"
    CALL = "call"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Notice(_Record):
    """A notice to one person. Each attempt sends the same.

    Attributes:
        to: the telephone number, in E.164: `+`, then at most 15 digits.
        text: in plain words; read out, in a call.
        language: in which a call reads it out.
        until: from then on it is of no use.
    """

    to: Private
    text: Private
    language: Language = "en"
    until: AwareDatetime


class _Standing(_Record):
    """How far a message or a call had come."""

    sid: Sid
    status: str

    @property
    def failed(self) -> bool:
        """It did not reach anybody, and will not."""
        return self.status in _FAILED

    @property
    def final(self) -> bool:
        """Nothing follows `status`."""
        return self.failed or self.status in _REACHED

    def outlasts(self, other: _Standing) -> bool:
        """Whether this holds although `other` was reported after it: reports come in any order. A failure holds, and a
        delivery holds unless `other` is a failure."""
        return self.failed or (self.final and not other.failed)


class Accepted(_Standing):
    """The provider's receipt: it has the message or the call, and answers for it. It holds no number and no text.

    Attributes:
        sid: the provider's own name for it.
        status: in which it was then (`queued`, `accepted`, ...); where it was found by a look-up, how far it had come.
        confirms_within: the longest time until a status callback should report the result; None where none
            was asked for.
    """

    confirms_within: timedelta | None = None


class Reported(_Standing):
    """The content of a status callback: one of several about the same message or call, in any order.

    Attributes:
        sid: which message or call.
        channel: by which it went.
        status: the provider's word: `sent`, `delivered`, `undelivered`, `completed`, `no-answer`, ...
        code: the provider's error code, where it failed.
        reference: of the sending that it is about (`reference_of` its key): a late one may be about an earlier one.
    """

    channel: Channel
    status: Annotated[str, Field(pattern=r"^[a-z_-]{1,40}$")]
    code: int | None = None
    reference: str = ""


def reference_of(key: Key) -> str:
    """8 characters that name a sending to people and to the provider: they stand in the text and in callback URLs.

    40 bits of the key's SHA-256, in Crockford's base32, which has no I, L, O and U. They only have to tell apart what
    went to one number within hours.
    """
    bits = int.from_bytes(hashlib.sha256(key.encode()).digest()[:5], "big")
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(35, -5, -5))


Sending = tuple[Effect[Notice, Accepted], Lookup[Notice, Accepted]]


ACCOUNT = RateLimit("telephony", per_second=50)
"""The rate that the provider accepts from one account, for all requests; `perdure limit` changes it for the fleet."""
TIMEOUT, SETTLE, EVERY = timedelta(seconds=15), timedelta(seconds=60), timedelta(seconds=2)
RETRY = RetryPolicy(initial_interval=timedelta(seconds=2), maximum_interval=timedelta(seconds=60))
"""A notice is of use for an hour or so."""


def sms_contracts(
    *,
    timeout: timedelta = TIMEOUT,
    visibility_delay: timedelta = SETTLE,
    every: timedelta = EVERY,
    retry: RetryPolicy = RETRY,
    limit: RateLimit | None = ACCOUNT,
) -> Sending:
    """The pair `send-sms` and `find-sms`, with durations of your own.

    Args:
        timeout: the longest that one request to the provider may take.
        visibility_delay: how long after that its lists may lack an accepted message.
        every: time between the first two look-ups.
        retry: when an attempt that certainly did nothing is made again.
        limit: how many of them the fleet may make in a second.
    """
    return _contracts("send-sms", "find-sms", timeout, visibility_delay, every, retry, limit)


def call_contracts(
    *,
    timeout: timedelta = TIMEOUT,
    visibility_delay: timedelta = SETTLE,
    every: timedelta = EVERY,
    retry: RetryPolicy = RETRY,
    limit: RateLimit | None = ACCOUNT,
) -> Sending:
    """The pair `place-call` and `find-placed-call`; as `sms_contracts`."""
    return _contracts("place-call", "find-placed-call", timeout, visibility_delay, every, retry, limit)


def _contracts(
    effect: str,
    look_up: str,
    timeout: timedelta,
    visibility_delay: timedelta,
    every: timedelta,
    retry: RetryPolicy,
    limit: RateLimit | None,
) -> Sending:
    find = Lookup[Notice, Accepted](look_up, timeout=timedelta(seconds=20), limit=limit)
    # Two misses: the lists come from a copy that may lag behind. No end to the asking: a notice expires.
    doubt = AskFirst(find, visibility_delay=visibility_delay, misses=2, tries=None, every=every, otherwise=Escalate())
    return Effect[Notice, Accepted](effect, timeout=timeout, doubt=doubt, retry=retry, limit=limit), find


SEND_SMS, FIND_SMS = sms_contracts()
PLACE_CALL, FIND_PLACED_CALL = call_contracts()
