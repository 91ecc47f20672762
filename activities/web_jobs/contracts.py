"""Jobs that are web pages: the data of a job, the answers of a page, and the contracts to call, follow and look up.

The properties of a job type (the address of its page, the time-out of a call, the doubt policy) are data in
the table `web_job.type`. A lifecycle gets it from its first effect, so that its history contains it.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from perdure import AskFirst, Dedupe, Effect, Escalate, Lookup, Repeat, RetryPolicy

INLINE_UP_TO = timedelta(seconds=5)
"""A type whose calls may take no longer is called in the workflow's own worker: cheaper and faster."""
LAST_LOOK = timedelta(minutes=10)
"""After the time of a page that is at work: it is asked a last time, so that an answer ends the job and any doubt."""
MOST_INPUT = 256_000
"""Bytes of JSON that a job may bring along. Temporal refuses payloads over 2 MB, and warns from 512 kB on."""

TypeName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


def _not_too_long(payload: Any) -> Any:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode("utf-8", "surrogatepass")) > MOST_INPUT:
        raise ValueError(f"is longer than {MOST_INPUT:,} bytes as JSON: keep it in a table, and send its id")
    return payload


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Job(_Record):
    """One job.

    Attributes:
        type: name of its job type.
        params: the values for the braces of the type's URL; also the JSON body, without a payload.
        payload: JSON data; the body of the request.
    """

    type: TypeName
    params: dict[str, str | int | float | bool] = {}
    payload: Annotated[Any, AfterValidator(_not_too_long)] = None


class Child(Job):
    """One job that a page lists.

    Attributes:
        id: distinguishes it from its siblings; the job's own id is `<id of the master>/<id>`.
    """

    id: Annotated[str, Field(min_length=1, max_length=200)]


class Ask(_Record):
    """How a job is to be done: asked before its call, and again while its type is held."""

    job: str
    type: str


class Policy(_Record):
    """The doubt policy of a job, as its job type has it: for calls whose outcome is unknown.

    Attributes:
        window: for `dedupe`, how long the page remembers a key.
        visibility_delay: how long after an attempt's deadline the page may still be at work; for `lookup`.
        otherwise: the policy after the window, or if the look-up gives no answer.
    """

    kind: Literal["dedupe", "lookup", "repeat", "escalate"] = "escalate"
    window: timedelta | None = None
    visibility_delay: timedelta = timedelta(seconds=30)
    otherwise: Literal["escalate", "repeat"] = "escalate"

    def doubt(self) -> Dedupe | AskFirst[Call, Answer] | Repeat | Escalate:
        """As `perform(doubt=)` takes it."""
        otherwise = Repeat() if self.otherwise == "repeat" else Escalate()
        match self.kind:
            case "dedupe":
                return Dedupe(self.window or timedelta(hours=24), otherwise=otherwise)
            case "lookup":
                return AskFirst(FIND_CALL, visibility_delay=self.visibility_delay, otherwise=otherwise)
            case "repeat":
                return Repeat()
            case "escalate":
                return Escalate()


class Route(_Record):
    """How a job is done, by its type at the time of the first effect.

    Attributes:
        held: why it can't be called now; None = it can.
        timeout: the longest that one call may take.
        within: the longest total time once a page has reported that it is at work.
        tries: how many attempts may end without the page having done anything; None = no limit.
        callback: whether the page may call back.
        listed: it has listed children in an earlier generation: it is not called again, they go on.
    """

    held: str | None = None
    timeout: timedelta = timedelta(seconds=30)
    policy: Policy = Policy()
    within: timedelta = timedelta(hours=24)
    tries: int | None = None
    callback: bool = False
    listed: bool = False


class Call(_Record):
    """One call of a page. The same for every attempt, so that each sends the same bytes."""

    job: str
    type: str
    params: dict[str, str | int | float | bool] = {}
    payload: Any = None


class Then(StrEnum):
    """What follows from a page's answer."""

    NOTHING = "nothing"
    """The job is done."""
    FOLLOW = "follow"
    """202 with a Location: ask there until it is done."""
    CALLBACK = "callback"
    """202 without one: the page calls back."""
    CHILDREN = "children"
    """It has listed children."""
    UNUSABLE = "unusable"
    """It was called, and its answer cannot be used, for the reason in the body. Only a look-up finds that."""


class Answer(_Record):
    """The answer of a page: the receipt.

    Attributes:
        status: of the HTTP response.
        body: JSON data, or text; None where it was longer than is kept.
        then: the next step; None where a person or the page's callback has confirmed a call whose answer is lost: what
            is on record decides.
        location: where to ask, for `FOLLOW`.
        retry_after: seconds that it asked to be left alone.
        children: how many children it has listed, with what is on further pages not counted.
    """

    status: int
    body: Any = None
    then: Then | None = None
    location: str | None = None
    retry_after: float | None = None
    children: int = 0


class Follow(_Record):
    """A page that is at work: ask `location` until it is done."""

    job: str
    type: str
    location: str


class CalledBack(_Record):
    """The callback of a page.

    Attributes:
        ok: whether the job was done.
        body: JSON data, at most 64 kB.
        why: why it was not.
    """

    ok: bool = True
    body: Any = None
    why: str | None = None


class Step(_Record):
    """One look at a family: count the children, and start as many waiting ones as the window allows."""

    master: str


class Family(_Record):
    """How far the children of a master are.

    Attributes:
        window: how many may be open at a time.
        tolerates: how many may fail; None = any number.
        next_page: where more are listed.
        page: number of that page, from 1.
        listed: how many are known; each of them is one of the following.
        waiting, open, done, failed, cancelled: not started yet, and so on.
        refused: how many can't become jobs; they are rows of `web_job.refused_child`.
        first_refused: the id of the first of these, and why.
        started: how many this look has started.
    """

    window: int = 50
    tolerates: int | None = 0
    next_page: str | None = None
    page: int = 1
    listed: int = 0
    waiting: int = 0
    open: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    first_refused: str | None = None
    started: int = 0

    @property
    def broken(self) -> bool:
        """More failed than may: no more are started."""
        return self._too_many(self.failed + self.cancelled)

    @property
    def failing(self) -> bool:
        """With those that could not be created, more failed than may: that is how its master ends."""
        return self._too_many(self.failed + self.cancelled + self.refused)

    def _too_many(self, failed: int) -> bool:
        return self.tolerates is not None and failed > self.tolerates

    @property
    def over(self) -> bool:
        """Nothing is under way, and nothing more is started."""
        return self.open == 0 and (self.broken or (self.waiting == 0 and self.next_page is None))

    @property
    def wants_page(self) -> bool:
        """Fewer children wait than may be under way, and the list continues."""
        return self.next_page is not None and self.waiting < self.window and not self.broken

    @property
    def has_room(self) -> bool:
        """Many more could be started; with fewer it is worth its while to wait for more room."""
        return self.waiting > 0 and self.open <= self.window // 2 and not self.broken

    def __str__(self) -> str:
        more = " and more that are not listed yet" if self.next_page else ""
        gone = f", {self.cancelled} cancelled" if self.cancelled else ""
        gone += f", {self.refused} not created" if self.refused else ""
        first = f"; the first of these: {self.first_refused}" if self.first_refused else ""
        left = self.waiting + self.open
        return f"{self.done} done, {self.failed} failed{gone}, {left} left of {self.listed}{more}{first}"


class Page(_Record):
    """One page of a list of children."""

    master: str
    type: str
    url: str
    number: int


class Pass(_Record):
    """Hand a cancel on to a part of the children."""

    master: str
    by: str
    note: str = ""


class Left(_Record):
    """Number of children without the message."""

    left: int


class Memory(BaseModel):
    """What a run of a job's lifecycle hands on to the next. It stands here since the sandbox makes anew, for each run,
    the classes of a workflow's own module.

    Attributes:
        asked: how often it has asked how it is done.
        route: the route at that time. It stays, because another one could lead to another effect with its own key.
        resumed: in this round the failed ones of its children were given back to those that wait.
        until: when the work of the page is of no use any more.
        called_back: the callback of the page.
        page: of its children, that is to be listed next.
        unlisted: why further children cannot be listed.
    """

    asked: int = 0
    route: Route | None = None
    resumed: bool = False
    until: datetime | None = None
    called_back: CalledBack | None = None
    page: Page | None = None
    unlisted: str | None = None


_QUICK = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
_INSIDE = RetryPolicy(initial_interval=timedelta(seconds=0.5), maximum_interval=timedelta(seconds=15))

FIND_CALL = Lookup[Call, Answer]("find-web-call", timeout=timedelta(seconds=20))
"""GET of the type's status URL: 202 = the page is at work, 2xx = it was done, 404 and 410 = it has no record of it."""

CALL = Effect[Call, Answer](
    "call-page",
    timeout=timedelta(seconds=30),
    doubt=AskFirst(FIND_CALL, visibility_delay=timedelta(seconds=30)),
    retry=_QUICK,
)
CALL_INLINE = Effect[Call, Answer](
    "call-page-inline",
    timeout=INLINE_UP_TO,
    doubt=AskFirst(FIND_CALL, visibility_delay=timedelta(seconds=30)),
    retry=_QUICK,
    inline=True,
)

# These only read. A repeated read changes nothing, as if the page dropped it, so a refusal answers for the reads before
# it. Else the doubt of a read whose worker was killed would outlive the job, and nobody could restart it.
_READ = Dedupe(window=timedelta(days=36_500), otherwise=Repeat())
FOLLOW = Effect[Follow, Answer]("follow-page", timeout=timedelta(minutes=10), doubt=_READ, retry=_QUICK)
LIST = Effect[Page, Family]("list-children", timeout=timedelta(minutes=1), doubt=_READ, retry=_QUICK)

# These steps run in the application's own database, in one transaction each. A repeat changes nothing.
ROUTE = Effect[Ask, Route]("route-job", timeout=timedelta(seconds=4), doubt=Repeat(), retry=_INSIDE, inline=True)
ADVANCE = Effect[Step, Family](
    "advance-family", timeout=timedelta(seconds=4), doubt=Repeat(), retry=_INSIDE, inline=True
)
AGAIN = Effect[Step, Left]("run-failed-again", timeout=timedelta(seconds=4), doubt=Repeat(), retry=_INSIDE, inline=True)
PASS_ON = Effect[Pass, Left](
    "cancel-children", timeout=timedelta(seconds=4), doubt=Repeat(), retry=_INSIDE, inline=True
)
