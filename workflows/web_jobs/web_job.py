"""Each job is a web page: the lifecycle calls it, follows it, looks it up in doubt, and leads its children to their
end.

`scheduled -> processing -> complete | failed`, with `held` while its type is disabled.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar, assert_never

from temporalio import workflow

from activities.web_jobs.contracts import (
    ADVANCE,
    AGAIN,
    CALL,
    CALL_INLINE,
    FOLLOW,
    INLINE_UP_TO,
    LAST_LOOK,
    LIST,
    PASS_ON,
    ROUTE,
    Answer,
    Ask,
    Call,
    CalledBack,
    Family,
    Follow,
    Job,
    Left,
    Memory,
    Page,
    Pass,
    Route,
    Step,
    Then,
)
from perdure import AppColumn, Done, Effect, GaveUp, Lifecycle, NotPerformed, OperatorRequest, RetryPolicy, state
from perdure.contracts import AppRows, Erasure

In = TypeVar("In")

SOON = timedelta(seconds=1)
LOOK_AGAIN = timedelta(minutes=10)
"""Time after which a wait for a signal (a type enabled, children moved) ends, because the signal may not come."""


class Progress(StrEnum):
    """The states of a job."""

    SCHEDULED = state("scheduled", leads_to=("held", "processing", "failed"))
    HELD = state("held", leads_to=("processing", "failed"))
    PROCESSING = state("processing", leads_to=("held", "complete", "failed"))
    COMPLETE = state("complete", final=True)
    FAILED = state("failed", final=True)
    CANCELLED = state("cancelled", cancelled=True)


@workflow.defn(name="web-job")
class WebJob(Lifecycle[Job, Progress]):
    """Calls the page of one job, and follows it until it is done."""

    effects = (ROUTE, CALL, CALL_INLINE, FOLLOW, ADVANCE, AGAIN, LIST, PASS_ON)
    mirror = AppColumn("web_job.job", column="state")
    expects = AppRows("select id, web_job.input(j) as input from web_job.job j where state = 'scheduled'")
    erasure = Erasure(
        entities="select 'web-job' as lifecycle, id from web_job.job where parent = $1",
        rows={
            "web_job.callback": "delete from web_job.callback where job = $1",
            "web_job.refused_child": "delete from web_job.refused_child where master = $1",
            "web_job.family": "delete from web_job.family where master = $1",
            "web_job.job": "delete from web_job.job where id = $1",
        },
        elsewhere=("the pages that were called, and the logs between you and them: params are part of the URL",),
    )
    if_ended = "again"

    def __init__(self) -> None:
        self.memory = Memory()
        self.go_on = False
        self.moved = False
        self.looks = 0
        self.signals = 0

    def snapshot(self) -> Memory:
        """The data for the next run."""
        return self.memory

    @workflow.run
    async def run(self, job: Job) -> None:
        """Lead the job from the call to its end."""
        early = self.memory.called_back
        self.memory = self.restore(Memory) or Memory()
        self.memory.called_back = self.memory.called_back or early
        end = await self._do(job)
        if isinstance(end, NotPerformed):
            return await self.enter(Progress.FAILED, why=end.why)
        await self.enter(Progress.COMPLETE, why=end)

    async def cancelling(self, asked: OperatorRequest) -> None:
        """Cancel the children, if there are any."""
        part = Pass(master=self.entity.id, by=asked.by, note=asked.note)
        await self._in_parts(PASS_ON, part, "{} of its children have not been asked to end yet")

    @workflow.signal
    def called_back(self, report: CalledBack) -> None:
        """The page has called back, which proves that it was called."""
        self.memory.called_back = report

    @workflow.signal
    def children_moved(self) -> None:
        """Some children have ended."""
        self.moved = True
        self.signals += 1

    @workflow.signal
    def type_changed(self) -> None:
        """The type has changed, so that it may not hold the job any more."""
        self.go_on = True
        self.signals += 1

    async def _do(self, job: Job) -> NotPerformed | str:
        """Perform the job. Returns why it was not done, or how it was done."""
        route = await self._route(job)
        if route.listed:
            await self.enter(Progress.PROCESSING, why="goes on with its children")
            return await self._lead(job, again=True)
        end = await self._call(job, route)
        if isinstance(end, NotPerformed):
            return end
        answer = end.receipt
        match answer.then:
            case Then.FOLLOW:
                return await self._follow(job, answer, route)
            case Then.CALLBACK:
                return await self._wait_for_callback(route)
            case Then.CHILDREN:
                return await self._lead(job)
            case Then.NOTHING:
                return f"answered {answer.status}"
            case Then.UNUSABLE:
                return NotPerformed(str(answer.body))
            case None:  # the page's answer is lost; it may have listed children
                family = await self._look()
                if family.listed or family.next_page:
                    return await self._lead(job)
                return await self._wait_for_callback(route) if self.memory.called_back else f"answered {answer.status}"
            case _:
                assert_never(answer.then)

    async def _route(self, job: Job) -> Route:
        """The way to perform the job. Waits while the type holds it."""
        while self.memory.route is None:
            self.go_on = False
            suffix = f"{self.memory.asked}.{self.signals}"  # for the reason in `_step`
            end = await self.perform(ROUTE, Ask(job=self.entity.id, type=job.type), suffix=suffix)
            assert isinstance(end, Done)  # it cannot end in another way
            if end.receipt.held is None:
                self.memory.route = end.receipt
                break
            self.memory.asked += 1
            if self.state is not Progress.HELD:
                # Then it reads the type again: a person who enables the type later finds the job among the held ones.
                await self.enter(Progress.HELD, why=end.receipt.held)
                continue
            await self.wait_for(lambda: self.go_on, until=workflow.now() + LOOK_AGAIN)
        return self.memory.route

    async def _call(self, job: Job, route: Route) -> Done[Answer] | NotPerformed:
        while True:
            call = CALL_INLINE if route.timeout <= INLINE_UP_TO else CALL
            end = await self.perform(
                call,
                Call(job=self.entity.id, type=job.type, params=job.params, payload=job.payload),
                entering=Progress.PROCESSING,
                doubt=route.policy.doubt(),
                timeout=route.timeout,
                retry=RetryPolicy(
                    initial_interval=timedelta(seconds=1),
                    maximum_interval=timedelta(minutes=1),
                    maximum_attempts=route.tries,
                ),
                confirmed_by=self._called_back,
            )
            if not isinstance(end, GaveUp) or end.in_doubt:
                return end
            self.memory.route = None  # the page was certainly not called, so a new way can be used
            self.memory.asked += 1
            asked = self.memory.asked
            route = await self._route(job)
            if asked == self.memory.asked:  # the type did not hold the job
                return end

    async def _follow(self, job: Job, answer: Answer, route: Route) -> NotPerformed | str:
        assert answer.location is not None
        follow = Follow(job=self.entity.id, type=job.type, location=answer.location)
        end = await self.perform(FOLLOW, follow, expires_at=self._until(route) + LAST_LOOK)
        if isinstance(end, NotPerformed):
            return end
        match end.receipt.then:
            case Then.CHILDREN:
                return await self._lead(job)
            case Then.CALLBACK:
                return await self._wait_for_callback(route)
            case _:
                return f"answered {end.receipt.status}"

    async def _wait_for_callback(self, route: Route) -> NotPerformed | str:
        await self.wait_for(lambda: self.memory.called_back is not None, until=self._until(route))
        report = self.memory.called_back
        if report is None:
            return NotPerformed(f"the page has not called back within {route.within}")
        return "called back" if report.ok else NotPerformed(report.why or "the page called back that it failed")

    def _called_back(self) -> Answer | None:
        """The answer of a page that has called back, which proves the call; else None."""
        return Answer(status=202) if self.memory.called_back else None

    def _until(self, route: Route) -> datetime:
        self.memory.until = self.memory.until or workflow.now() + route.within
        return self.memory.until

    async def _lead(self, job: Job, *, again: bool = False) -> NotPerformed | str:
        """Lead the children to their end."""
        if again and not self.memory.resumed:
            await self._in_parts(AGAIN, Step(master=self.entity.id), "{} of its children are given another try")
            self.memory.resumed = True
            await self.save()  # a run from an older record would repeat the children that failed again
        while True:
            if self.memory.page is not None:
                await self._list(self.memory.page)
            self.moved = False  # before the look: a child that moves meanwhile is seen, or signals again
            family = await self._look()
            unlisted = self.memory.unlisted
            if family.over or (unlisted and family.open + family.waiting == 0):
                summary = f"children: {family}"
                if unlisted and not family.broken:
                    return NotPerformed(f"{unlisted}; {summary}")
                return NotPerformed(summary) if family.failing else summary
            if family.wants_page and not unlisted:
                url, number = str(family.next_page), family.page
                self.memory.page = Page(master=self.entity.id, type=job.type, url=url, number=number)
            elif not (family.has_room and family.started):
                rest = SOON if family.has_room else LOOK_AGAIN
                await self.wait_for(lambda: self.moved, until=workflow.now() + rest)

    async def _list(self, page: Page) -> None:
        """Read a list of more children. If that is impossible, the known children continue to their end."""
        end = await self.perform(LIST, page, suffix=str(page.number))
        self.memory.page = None
        if isinstance(end, NotPerformed):
            self.memory.unlisted = f"page {page.number} of its children: {end.why}"

    async def _in_parts(self, effect: Effect[In, Left], given: In, how_far: str) -> None:
        """Perform the effect until no part is left. Without progress, wait for some time."""
        before: int | None = None
        while True:
            end = await self.perform(effect, given, suffix=self._step())
            assert isinstance(end, Done)  # it cannot end in another way
            left = end.receipt.left
            if not left:
                return
            self.report(how_far.format(left))
            if before is not None and left >= before:
                await self.wait_until(workflow.now() + SOON)
            before = left

    async def _look(self) -> Family:
        end = await self.perform(ADVANCE, Step(master=self.entity.id), suffix=self._step())
        assert isinstance(end, Done)  # it cannot end in another way
        self.report(str(end.receipt))
        return end.receipt

    def _step(self) -> str:
        """A suffix that no other look has, also in another run, because each look must read the present state.

        A look that is repeated after the loss of its workflow task gets a new one too if a signal came in between: the
        signal is processed before the look then, and nobody would repeat it. A run id begins with the time.
        """
        self.looks += 1
        return f"{workflow.info().run_id[-12:]}.{self.looks}.{self.signals}"
