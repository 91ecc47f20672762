"""Acts on many entities that are under way: how far each has come, and how it is stopped."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from perdure._operations.bulk import Bulk, Choice, Name, Tally
from perdure._store.schema import Connection
from perdure._text.privacy import describe
from perdure._text.shown import one_line
from perdure.console.folder import Folder
from perdure.console.lasting import Lasting
from perdure.console.roles import Person, Role
from perdure.console.verbs import Fields, Part, Verb
from perdure.errors import Forbidden, NotNow, PerdureError
from perdure.logs import log_event

log: logging.Logger = logging.getLogger("perdure.console")

MOST, MOST_OF_ALL = 3, 30
"""Jobs under way of one person, and of all."""
KEPT = 200
"""Jobs that are remembered; what they did is on record in any case."""
Following = Callable[[Connection, Name | None], Awaitable[Sequence[Choice]]]
"""The next entities of a job behind one; none = that was the last."""
REFUSALS = 100
"""Refusals of one job that are shown, the newest ones."""


@dataclass
class Job:
    """One act for many.

    Attributes:
        words: whom it is for.
        total: how many there were in the preview.
        rest: address of the page that shows those that are left.
        refusals: the newest ones.
        problem: why it failed, if it has.
        ended: when; None = it is under way.
        revoked: whether its person was revoked since it began.
    """

    id: str
    by: str
    verb: Verb
    words: str
    total: int
    rate: float
    rest: str
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    tally: Tally = field(default_factory=Tally)
    refusals: deque[str] = field(default_factory=lambda: deque[str](maxlen=REFUSALS))
    problem: str | None = None
    ended: datetime | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    revoked: Callable[[], bool] = lambda: False
    lasting: Lasting | None = None

    async def run(self, lasting: Lasting, following: Following, fields: Fields) -> None:
        """Do it, until all are dealt with, it is stopped, or its person is revoked; while the database is away, it
        waits."""
        self.lasting = lasting

        async def choices() -> AsyncIterator[Choice]:
            after: Name | None = None

            async def next_page(connection: Connection) -> Sequence[Choice]:
                return await following(connection, after)

            while page := await lasting.read(next_page):
                for choice in page:
                    yield choice
                    after = choice.name

        async def act_on(choice: Choice, part: Part) -> str:
            entity = choice.name.entity
            acts = replace(lasting.acts, seen=choice.seen, update_id=new_id())  # which a repetition has as well

            async def do() -> str:
                if self.revoked():
                    self.stop.set()
                    raise Forbidden(f"{entity}: {self.by} was revoked")
                return await self.verb.act(acts, entity, part, fields)

            return await lasting.act(do, entity, lambda why: self.verb.recorded(why, part, fields), since)

        async def act(choice: Choice) -> str:
            return "; ".join([await act_on(choice, part) for part in choice.parts or (None,)])

        def refused(error: PerdureError) -> None:
            self.refusals.append(one_line(error)[:500])

        def progress(tally: Tally) -> None:
            self.tally = tally

        try:
            since = await lasting.begin()
            self.tally = await Bulk(act, self.rate, self.stop, refused, progress).run(choices())
            self.problem = str(self.tally.unanswered) if self.tally.unanswered else None
        except PerdureError as error:
            self.problem = str(error)
        except Exception as error:  # its message may quote what it was about
            log.error("a job failed: %s: %s", self.verb.name, describe(error), exc_info=error)
            self.problem = "it failed: the log of the console has the place"
        finally:
            self.ended = datetime.now(UTC)
            log_event(log, "dealt with many", verb=self.verb.name, by=self.by, accepted=self.tally.accepted)


@dataclass
class Jobs:
    """Those of one console process."""

    folder: Folder
    _jobs: dict[str, Job] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(
        self,
        job: Job,
        lasting: Lasting,
        following: Following,
        fields: Fields,
        ended: Callable[[], None],
    ) -> None:
        """Let it run; `ended` is called at its end.

        Raises:
            NotNow: so many are under way already.
        """
        under_way = [each.by for each in self._jobs.values() if each.ended is None]
        if (own := under_way.count(job.by)) >= MOST:
            raise NotNow(f"{own} acts on many of yours are under way: wait for one of them, or stop one")
        if len(under_way) >= MOST_OF_ALL:
            raise NotNow(f"{len(under_way)} acts on many of all people are under way: wait for one of them")
        job.revoked = lambda: self.folder.revoked(job.by, job.began.timestamp())
        self._jobs[job.id] = job
        for old in [each.id for each in self._jobs.values() if each.ended][: max(len(self._jobs) - KEPT, 0)]:
            del self._jobs[old]
        task = asyncio.create_task(job.run(lasting, following, fields))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: ended())

    def of(self, person: Person, job_id: str) -> Job | None:
        """The job, if the person began it or administers the console."""
        job = self._jobs.get(job_id)
        allowed = job is not None and (job.by == person.name or person.may_everywhere(Role.ADMINISTER))
        return job if allowed else None

    def all_of(self, person: Person) -> list[Job]:
        """Those that the person may see, the newest first."""
        return [each for each in reversed(self._jobs.values()) if self.of(person, each.id)]

    async def close(self) -> None:
        """Stop them: those under way are the last."""
        for job in self._jobs.values():
            job.stop.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks))


def new_id() -> str:
    """Of a job, or of one of its acts."""
    return secrets.token_urlsafe(9)
