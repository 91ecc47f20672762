"""Rate limits and expiries, without servers: what may be declared, and what a run and a worker do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from temporalio import workflow
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from perdure import (
    App,
    AskFirst,
    Attempt,
    Done,
    Effect,
    Expired,
    InDoubt,
    Lifecycle,
    Lookup,
    LookupContext,
    NotDone,
    NotPerformed,
    OperatorRequest,
    Repeat,
    state,
)
from perdure._activity.execution import attempt
from perdure._activity.hosting import TemporalHost
from perdure._services.queues import queues
from perdure._store.memory import MemoryStore
from perdure._wire.orders import AttemptOrder, CallResult
from perdure._wire.terms import Terms, terms_of
from perdure._wire.writes import Answer, Fence, FenceOp, Move, Write
from perdure.contracts import RateLimit
from perdure.contracts.attempt import boot_clock
from perdure.contracts.keys import Key
from perdure.contracts.limits import limits_of
from perdure.errors import DeclarationError, InvalidEntity
from perdure.settings import Settings
from perdure.testing import At, NotPickedUp, rehearse
from tests.deadline import DEADLINE

ACCOUNT = RateLimit("account", per_second=5)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Way(StrEnum):
    """Where it is."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = state("sent", final=True)
    EXPIRED = state("expired", final=True)
    WITHDRAWN = state("withdrawn", cancelled=True)


FIND = Lookup[str, int]("find-limited", limit=ACCOUNT)
ASKED = Effect[str, int](
    "send-asked",
    timeout=timedelta(seconds=5),
    limit=ACCOUNT,
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=5), tries=None),
)


@workflow.defn(name="expiring")
class Expiring(Lifecycle[str, Way]):
    """Of use for an hour."""

    effects = (ASKED,)

    @workflow.run
    async def run(self, given: str) -> None:
        """Send it in time."""
        until = self.started_at + timedelta(hours=1)
        match await self.perform(ASKED, given, entering=Way.SENDING, expires_at=until):
            case Done():
                await self.enter(Way.SENT)
            case Expired(why):
                await self.enter(Way.EXPIRED, why)
            case NotPerformed(why):
                raise AssertionError(why)


async def _perform(given: str, attempt: Attempt) -> int:
    return 1


async def _answer(given: str, question: LookupContext) -> int | None:
    return None


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_rate_is_a_number_above_zero(rate: float) -> None:
    with pytest.raises(DeclarationError, match="must be a number above zero"):
        RateLimit("account", per_second=rate)


def test_the_name_can_stand_in_the_name_of_a_task_queue() -> None:
    with pytest.raises(InvalidEntity, match="limit"):
        RateLimit("the account", per_second=1)
    assert ACCOUNT.task_queue("shop") == "shop.account"


@pytest.mark.parametrize("other", [{"inline": True}, {"task_queue": "elsewhere"}])
def test_a_limited_effect_takes_no_other_way_to_a_worker(other: dict[str, Any]) -> None:
    for made in (
        lambda: Effect[str, int]("e", timeout=timedelta(seconds=1), doubt=Repeat(), limit=ACCOUNT, **other),
        lambda: Lookup[str, int]("f", limit=ACCOUNT, **other),
    ):
        with pytest.raises(DeclarationError, match=f"so {next(iter(other))}="):
            made()


def test_two_that_share_a_limit_share_its_task_queue() -> None:
    app = App([Expiring], [ASKED.performs(_perform), FIND.answers(_answer)])
    assert app.limits == {"account": ACCOUNT}
    config = Settings(database_url="postgresql://nowhere", task_queue="shop")
    assert queues(app, config) == [("shop", "workflow"), ("shop", "activity"), ("shop.account", "activity")]


def test_two_limits_of_one_name_are_a_mistake() -> None:
    other = Lookup[str, int]("find-other", limit=RateLimit("account", per_second=6))
    with pytest.raises(DeclarationError, match="two limits are named 'account', of 5 and 6 a second"):
        limits_of([ASKED, FIND, other])


def test_a_limited_attempt_may_wait_a_day_and_others_are_checked_sooner() -> None:
    plain = Effect[str, int]("plain", timeout=timedelta(seconds=1), doubt=Repeat())
    said = Effect[str, int](
        "said",
        timeout=timedelta(seconds=1),
        doubt=Repeat(),
        limit=ACCOUNT,
        schedule_to_start_timeout=timedelta(minutes=1),
    )
    assert (plain.schedule_to_start_timeout, ASKED.schedule_to_start_timeout, said.schedule_to_start_timeout) == (
        timedelta(minutes=5),
        timedelta(hours=24),
        timedelta(minutes=1),
    )


def test_the_terms_in_a_history_keep_the_look_ups_limit_and_that_it_asks_on() -> None:
    doubt = Terms.model_validate_json(terms_of(ASKED).model_dump_json()).doubt
    assert isinstance(doubt, AskFirst)
    assert (doubt.lookup.limit, doubt.tries) == (ACCOUNT, None)


async def test_an_attempt_waits_for_its_turn_until_it_expires_and_not_a_day() -> None:
    seen = await rehearse(Expiring, "x", {ASKED: [NotPickedUp()]})
    assert (seen.states, seen.calls(ASKED), seen.effects) == ([Way.EXPIRED], 0, {})
    assert seen.took == timedelta(hours=1)


async def test_a_cancel_takes_back_what_waits_for_its_turn() -> None:
    cancel = At(timedelta(minutes=10), "cancel", OperatorRequest(by="ann"))
    seen = await rehearse(Expiring, "x", {ASKED: [NotPickedUp()]}, messages=[cancel])
    assert (seen.end, seen.effects) == (Way.WITHDRAWN, {})
    assert timedelta(minutes=10) <= seen.took < timedelta(minutes=11)


async def test_a_doubt_that_nobody_can_answer_expires_on_record_and_calls_nobody() -> None:
    script: dict[Any, Any] = {ASKED: [InDoubt("cut")], FIND: [NotDone("they are down")] * 30}
    seen = await rehearse(Expiring, "x", script, allow_unused=True)
    assert seen.states == [Way.SENDING, Way.EXPIRED]
    [effect] = seen.effects.values()
    assert effect.status == "in_doubt"
    assert 15 <= seen.calls(FIND) <= 25
    assert seen.took == timedelta(hours=1)


class Worker:
    """A worker at a time of day."""

    heartbeat_every = None
    stop_asked = False
    resources = None

    def __init__(self, now: datetime, clock: Callable[[], float] = boot_clock) -> None:
        self.now = now
        self.boot_clock = clock

    def heartbeat(self, progress: object) -> None:
        """Nobody listens."""

    def stopping(self) -> asyncio.Future[None]:
        """Never."""
        return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(("late", "calls"), [(timedelta(0), 0), (timedelta(days=1), 0), (-timedelta(seconds=9), 1)])
async def test_an_attempt_that_is_handed_out_after_its_expiry_leaves_no_record_and_makes_no_call(
    late: timedelta, calls: int
) -> None:
    store, order = MemoryStore(lambda: NOON), _order()
    made: list[str] = []

    async def body(given: str, the_attempt: Attempt) -> int:
        the_attempt.before_first_byte()
        made.append(the_attempt.key)
        return 1

    report = await attempt(ASKED, body, order, store, Worker(NOON + late))
    fence = order.write.fence
    assert fence is not None
    reading = order.write.model_copy(update={"move": None, "fence": fence.model_copy(update={"op": FenceOp.READ})})
    known = await store.write(reading, patience=1)
    assert (len(made), known.effect.attempts if known.effect else 0) == (calls, calls)
    if not calls:
        assert (report.result, report.begun, report.counts) == (CallResult.NOT_DONE, False, False)


async def test_a_call_ends_in_the_time_that_was_counted_before_its_commit() -> None:
    """What the commit took is none of the call's time: the database counts from the commit (invariant 5)."""
    now = boot_clock()

    class Slow(MemoryStore):
        """Takes three seconds for each commit."""

        async def write(self, write: Write, *, patience: float) -> Answer:
            """Commit, late."""
            nonlocal now
            answer = await super().write(write, patience=patience)
            now += 3
            return answer

    left: list[float] = []

    async def body(given: str, the_attempt: Attempt) -> int:
        left.append(the_attempt.remaining)
        return 1

    worker = Worker(NOON - timedelta(seconds=60), lambda: now)
    report = await attempt(ASKED, body, _order(), Slow(lambda: NOON), worker)
    assert (report.result, [round(each, 3) for each in left]) == (CallResult.DONE, [2.0])


@pytest.mark.parametrize("problem", ["input", "stop"])
async def test_an_execution_that_begins_nothing_counts_for_nothing(problem: str) -> None:
    async def body(given: str, the_attempt: Attempt) -> int:
        raise AssertionError("it is not called")

    order = _order().model_copy(update={"input": 5} if problem == "input" else {})
    worker = Worker(NOON - timedelta(seconds=60))
    worker.stop_asked = problem == "stop"
    report = await attempt(ASKED, body, order, MemoryStore(lambda: NOON), worker)
    assert (report.result, report.begun, report.counts, report.made) == (
        CallResult.NOT_DONE,
        False,
        False,
        problem == "input",
    )


async def test_an_attempt_that_expires_before_its_first_byte_sends_nothing() -> None:
    made: list[str] = []

    async def body(given: str, the_attempt: Attempt) -> int:
        assert the_attempt.useless_at is not None
        await asyncio.sleep(the_attempt.useless_at - boot_clock())
        the_attempt.before_first_byte()
        made.append(the_attempt.key)
        return 1

    report = await attempt(ASKED, body, _order(), MemoryStore(lambda: NOON), Worker(NOON - timedelta(seconds=0.02)))
    assert (report.result, report.why, report.counts, made) == (
        CallResult.NOT_DONE,
        "it was of no use any more",
        False,
        [],
    )


@pytest.mark.parametrize(("why", "cut"), [({"cancel_requested": True}, False), ({"timed_out": True}, True)])
async def test_a_call_that_has_its_turn_is_not_cut_by_a_cancel_but_by_its_successor(
    why: dict[str, bool], cut: bool
) -> None:
    worker, called = ActivityEnvironment(), asyncio.Event()

    async def act() -> bool:
        host = TemporalHost(grace=60)

        async def execution() -> Any:
            called.set()
            done, _ = await asyncio.wait({host.stopping()}, timeout=DEADLINE if cut else 0.05)
            return bool(done)

        return bool(await host.to_its_end(execution(), gives_way=True))

    acting = asyncio.ensure_future(worker.run(act))
    await called.wait()
    worker.cancel(cancellation_details=ActivityCancellationDetails(**why))
    assert await acting is cut


def _order() -> AttemptOrder:
    fence = Fence(op=FenceOp.BEGIN, key=Key("expiring/a/send-asked"), effect="send-asked", token="")
    move = Move(state="waiting")
    write = Write(
        lifecycle="expiring", id="a", generation=0, version=1, workflow_id="expiring/a", move=move, fence=fence
    )
    return AttemptOrder(write=write, input="x", number=1, timeout=5, expires_at=NOON)
