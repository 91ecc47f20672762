"""One real call of a page, by the code that workers call it with, of which nothing is recorded."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, assert_never

from activities.http.exchange import HttpRequest
from activities.secrets import NoSecret
from activities.web_jobs.callbacks import callback_token
from activities.web_jobs.calling import call_type
from activities.web_jobs.contracts import Answer, Call, Then
from activities.web_jobs.durations import written
from activities.web_jobs.job_type import JobType
from activities.web_jobs.readiness import why_not
from activities.web_jobs.request import call_of
from activities.web_jobs.resources import lifespan
from activities.web_jobs.settings import web_settings
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from perdure.settings import Settings

_SHOWN = 2000
"""Characters of a body that are shown."""


class NoCall(Exception):
    """The page can't be called. The message names the reason."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A call that is prepared.

    Attributes:
        key: begins with `test/`.
    """

    type: JobType
    call: Call
    key: Key
    request: HttpRequest

    @classmethod
    def of(cls, type_: JobType, params: dict[str, Any], payload: Any) -> Trial:
        """A disabled type can be tried as well.

        Raises:
            NoCall: the page can't be called, or not with this.
            ValidationError: params or payload are none.
        """
        key = Key(f"test/{type_.name}/{secrets.token_hex(8)}")
        call = Call(job=str(key), type=type_.name, params=params, payload=payload)
        if why := why_not(type_.model_copy(update={"disabled": None})):
            raise NoCall(why)
        try:
            return cls(type_, call, key, call_of(type_, call, key, _callback(type_, key)))
        except (Refused, NoSecret) as error:
            raise NoCall(f"it can't be called: {error}") from None

    async def run(self, config: Settings) -> Outcome:
        """Call the page: it does its work."""
        begun = monotonic()
        async with lifespan(config) as web:
            now = datetime.now(UTC)
            until = boot_clock() + self.type.timeout.total_seconds()
            attempt = Attempt(self.key, 1, now, until, resources=web)
            try:
                answer = await call_type(self.type, self.call, self.request, attempt, records=False)
            except NotDone as no:
                most = f", {self.type.tries} times at most" if self.type.tries else ""
                end = f"not done: {no.why}", f"it would be called again{most}", False
            except Refused as no:
                end = f"refused: {no.why}", "the job would fail", False
            except InDoubt as doubt:
                end = f"in doubt: {doubt.why}", _policy(self.type), False
            else:
                body = _body(answer)
                return Outcome(
                    monotonic() - begun, f"answered {answer.status}", _meaning(self.type, answer), True, body
                )
            return Outcome(monotonic() - begun, *end)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        came: the status of the answer, or how the call ended.
        meaning: what that would mean for a job.
        done: whether the job would be done, or at work.
        body: of the answer, cut; it may be personal.
    """

    seconds: float
    came: str
    meaning: str
    done: bool
    body: str | None = None


def _meaning(type_: JobType, answer: Answer) -> str:
    match answer.then:
        case Then.NOTHING | None:
            return "the job would be complete"
        case Then.FOLLOW:
            return f"the job would ask at {answer.location} until it is done, for {written(type_.within)} at most"
        case Then.CALLBACK:
            return f"the job would wait for its callback, for {written(type_.within)}; that of this test is unknown"
        case Then.CHILDREN:
            may = ", ".join(type_.children) or "none"
            return (
                f"the job would lead {answer.children} children, of the types that it may list: {may}; "
                "and more where further pages list them"
            )
        case Then.UNUSABLE:
            return f"the job would fail: {answer.body}"
        case _:
            assert_never(answer.then)


def _policy(type_: JobType) -> str:
    match type_.doubt:
        case "dedupe":
            return (
                f"it would be called again with the same key, until {written(type_.remembers or type_.within)} are over"
            )
        case "lookup":
            return "its status URL would be asked"
        case "repeat":
            return "it would be called again"
        case "escalate":
            return "the job would wait until a person settles it"


def _body(answer: Answer) -> str | None:
    if answer.body is None:
        return None
    text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body, ensure_ascii=False)
    return text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")


def _callback(type_: JobType, key: Key) -> dict[str, str]:
    """The headers of a real call; nobody waits for this one, and no token is on record."""
    if not type_.callback:
        return {}
    return {"Perdure-Callback": f"{web_settings().callback_url}/{callback_token(key)}"}
