"""Open lifecycles whose workflow is gone go on from their record, as if they had gone on in a new run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, RegisterNamespaceRequest
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
)
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.recovery.recovery import Recovered, recover
from perdure._reconcile.recovery.temporal import rebind, why_lost
from perdure._services.ownership.claiming import What, claim
from perdure._services.ownership.exchange import Exchange
from perdure._services.ownership.keeper import keeper_id
from perdure._store.sql import queries
from perdure._wire.carried import CARRIED, Carried
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import NotNow, NotThisDatabase, TemporalUnavailable
from tests.apps.lasting import KeptSale, Sale, app
from tests.deadline import DEADLINE, in_time
from tests.world import World

pytestmark = pytest.mark.world(app)

DAY = Duration(seconds=86_400)
CLOSES = {"close": True}
"""What the other side does with a request that leaves a doubt."""


AN_ATTEMPT = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        values ('sale/a/earlier', 'sale', 'a', 0, 'earlier', 't', 'not_done', 'd', now(), now(), now())
"""

MESSAGES = ["acknowledged", "lost", "dropped", "rejected", "waiting"]

REJECT = """
    with gone as (delete from perdure.outbox returning *)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
    select seq, lifecycle, id, generation, kind, body, 'a test' from gone
"""
LOST_COMMITS = """
    delete from perdure.effect;
    update perdure.ident set version = 0;
    update perdure.entity set state = 'starting', workflow_id = null, snapshot = null, memory = null, acknowledged = 0
"""
OTHER_START = "postmaster_started = postmaster_started - interval '1 day'"
WAKE = """
    insert into perdure.outbox (lifecycle, id, generation, kind, body)
    values ('sale', 'parked', 0, 'wake', '{"key": "sale/parked/pay"}')
"""


async def start(world: World, entity_id: str, *, kind: str = "sale", **sale: Any) -> None:
    """Start one."""
    await world.client.start(kind, entity_id, Sale(**sale))


async def without(world: World, *names: str) -> None:
    """Delete these workflows from Temporal, `lifecycle/id`, and wait until they are gone."""
    for name in names:
        await world.temporal_client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=world.temporal_client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=f"{world.scope}:{name}"),
            )
        )
    for name in names:

        async def gone(name: str = name) -> bool:
            try:
                await world.handle(*name.split("/")).describe()
            except RPCError:
                return True
            return False

        await world.until(gone, f"{name} deleted")


async def recovered(world: World) -> Recovered:
    """Recover all that is open."""
    return await recover(world.client._pool, world.temporal_client, world.scope, by="ann", why="the cluster burnt down")


HEARD, DOUBTFUL, REFUSED = ("sale", "heard"), ("sale", "doubtful"), ("sale", "refused")
GIVEN_UP, LATE = ("sale", "given-up"), ("sale", "late")
TOLD, UNKEPT = ("forgetful-sale", "told"), ("forgetful-sale", "unkept")
SEVEN = (HEARD, DOUBTFUL, REFUSED, GIVEN_UP, LATE, TOLD, UNKEPT)


async def test_what_was_done_heard_or_parked_stays_so_and_all_of_it_goes_on(world: World) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    async with world.worker(app):
        await seven_on_their_way(world, until)
    calls = world.counterparty.accepted.total()
    await without(world, *("/".join(each) for each in SEVEN))

    assert await recovered(world) == Recovered(open=7, started=7)

    async with world.worker(app):
        await seven_are_where_they_were(world, until)
        await seven_go_on(world)
    assert world.counterparty.accepted.total() == calls + 5
    assert set(world.counterparty.accepted.values()) == {1}
    noted = "select made_by, why from perdure.transition where id = 'late' and made_by is not null"
    assert [tuple(row) for row in await world.db.fetch(noted)] == [("ann", "the cluster burnt down")]


async def test_a_start_whose_delivery_is_not_on_record_goes_on_from_what_its_run_has_written(world: World) -> None:
    world.counterparty.replies_to["a"] = [{"ok": True, "accept": True}, CLOSES]
    async with world.worker(app):
        await start(world, "a")
        await world.client.signal("sale", "a", "hear", 7)
        await world.parked("sale")
        await world.until(lambda: world.db.fetchval("select not exists (select from perdure.outbox)"), "delivered")
    await without(world, "sale/a")
    await world.db.execute(
        "insert into perdure.outbox (lifecycle, id, generation, kind) values ('sale', 'a', 0, 'start')"
    )
    async with world.worker(app):
        await world.parked("sale")
        await world.client.resolve("sale", "a", EffectStatus.NOT_DONE, by="ann", note="not on their list")
        assert await world.ended("sale", "a") == "paid"
    assert await world.db.fetchval("select why from perdure.finished where id = 'a'") == "words [7]"


async def test_a_start_that_is_delivered_again_says_that_a_run_before_it_has_made_attempts(world: World) -> None:
    """If their records are lost afterwards, what the new run orders may have happened (`done-twice-938465`)."""
    for each in ("a", "b"):
        await start(world, each)
    await world.db.execute(AN_ATTEMPT)
    async with world.worker(app):
        await world.until(lambda: world.db.fetchval("select not exists (select from perdure.outbox)"), "delivered")
    given = [await world.handle("sale", each).describe() for each in ("a", "b")]
    assert [(await each.memo_value(CARRIED, type_hint=Carried)).gaps for each in given] == [True, False]


async def seven_on_their_way(world: World, until: datetime) -> None:
    """Two that were told a word and want another, two parked, one refused, one given up, one that waits for a time."""
    for _, each in (DOUBTFUL, UNKEPT):
        world.counterparty.replies_to[each] = [{"ok": True, "accept": True}, CLOSES]
    world.counterparty.replies_to[REFUSED[1]] = [{"refused": "sold out"}]
    world.counterparty.replies_to[GIVEN_UP[1]] = [{"accept": True}, {"not_done": "busy"}, {"not_done": "busy"}]
    for (kind, each), words in zip(SEVEN, (2, 1, 1, 0, 9, 2, 1), strict=True):
        await start(world, each, kind=kind, words=words, until=until if each == LATE[1] else None)
    for kind, each in (DOUBTFUL, UNKEPT):
        await world.client.signal(kind, each, "hear", 7)
    for kind, each in (HEARD, TOLD, LATE):
        await world.is_in(kind, each, "reserved")
        await world.client.signal(kind, each, "hear", 1)
    for kind, each in (REFUSED, GIVEN_UP):
        await world.is_in(kind, each, "refused")
    await both_parked(world)
    await world.until(lambda: world.db.fetchval("select not exists (select from perdure.outbox)"), "delivered")


async def both_parked(world: World) -> None:
    """Wait until both that are in doubt wait for a person."""
    await world.parked(*DOUBTFUL)
    await world.parked(*UNKEPT)


async def seven_are_where_they_were(world: World, until: datetime) -> None:
    """Parked, waiting for a retry or for the same time; nobody made an attempt that nobody asked for."""
    await both_parked(world)
    for kind, each in (REFUSED, GIVEN_UP):
        assert (await world.asked(kind, each)).waits_for_retry
    assert world.counterparty.seen("do", GIVEN_UP[1]) == 3
    earliest, latest = await world.until(lambda: rings_between(world, LATE[1]), "its timer")
    assert earliest - timedelta(seconds=1) < until < latest + timedelta(seconds=1)


async def seven_go_on(world: World) -> None:
    """Told another word, resolved, retried."""
    for kind, each in (HEARD, TOLD):
        await world.client.signal(kind, each, "hear", 2)
        assert await world.ended(kind, each) == "paid"
    why = "select why from perdure.transition where state = 'paid'"
    assert {row["why"] for row in await world.db.fetch(why)} == {"words [1, 2]"}
    await world.client.resolve(*DOUBTFUL, EffectStatus.NOT_DONE, by="ann", note="not on their list")
    assert await world.ended(*DOUBTFUL) == "paid"
    assert await world.db.fetchval("select why from perdure.finished where id = $1", DOUBTFUL[1]) == "words [7]"
    for kind, each in (REFUSED, GIVEN_UP):
        await world.client.retry(kind, each, by="ann")
    await world.is_in(*REFUSED, "reserved")
    assert await world.ended(*GIVEN_UP) == "paid"


async def rings_between(world: World, entity_id: str) -> list[datetime]:
    """Between which times the last timer of its run rings: its time began in the workflow task that ordered it."""
    history = await world.handle("sale", entity_id).fetch_history()
    timers = [each for each in history.events if each.HasField("timer_started_event_attributes")]
    if not timers:
        return []
    last, events = timers[-1].timer_started_event_attributes, {each.event_id: each for each in history.events}
    ended = events[last.workflow_task_completed_event_id]
    began = events[ended.workflow_task_completed_event_attributes.started_event_id]
    return [each.event_time.ToDatetime(UTC) + last.start_to_fire_timeout.ToTimedelta() for each in (began, ended)]


async def test_what_it_was_told_is_heard_before_it_catches_up_so_it_is_where_it_was(world: World) -> None:
    async with world.worker(app):
        await start(world, "a", kind="walk")
        for _ in range(2):
            await world.client.signal("walk", "a", "go")
        await world.is_in("walk", "a", "further")
        await world.until(lambda: world.db.fetchval("select not exists (select from perdure.outbox)"), "delivered")
    await without(world, "walk/a")
    await recovered(world)
    async with world.worker(app):
        await world.client.signal("walk", "a", "go")
        assert await world.ended("walk", "a") == "there"
    assert await world.states("walk", "a") == ["starting", "on", "further", "further", "there"], (
        "the fourth is the note"
    )


async def test_while_all_is_well_nothing_is_changed(world: World) -> None:
    async with world.worker(app):
        await start(world, "open")
        await start(world, "paid", words=0)
        await world.is_in("sale", "open", "reserved")
        await world.ended("sale", "paid")
        delivered = "select not exists (select from perdure.outbox)"  # a run may write before its relay has committed
        await world.until(lambda: world.db.fetchval(delivered), "delivered")
        before = await everything(world)

        assert await recovered(world) == Recovered(open=1, running=1)

        assert await everything(world) == before


class Before(Interceptor):
    """Something happens before Temporal is asked about a workflow.

    Args:
        happens: what that is. If it raises an error, Temporal is not asked.
    """

    def __init__(self, happens: Callable[[], Awaitable[None]]) -> None:
        self._happens = happens

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See base class."""
        happens = self._happens

        class Outbound(OutboundInterceptor):
            async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
                await happens()
                return await super().describe_workflow(input)

        return Outbound(next)


async def recovered_with(world: World, before: Callable[[], Awaitable[None]]) -> Recovered:
    """Recover all that is open, and do something before Temporal is asked about each workflow."""
    client = Client(**(world.temporal_client.config() | {"interceptors": [Before(before)]}))
    return await recover(world.client._pool, client, world.scope, by="ann", why="lost")


async def test_an_entity_that_ends_while_it_is_looked_up_is_not_reported_as_closed(world: World) -> None:
    async def ends() -> None:
        world.counterparty.before_accepting.open()
        await in_time(world.temporal_client.get_workflow_handle(f"{world.scope}:sale/a").result())

    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await start(world, "a", words=0)
        await world.until(lambda: world.counterparty.before_accepting.waiting, "it reserves")
        assert await recovered_with(world, ends) == Recovered()


async def test_an_end_that_was_asked_for_comes_when_the_doubt_is_settled(world: World) -> None:
    before, after = "asked before it parks", "asked when it is parked"
    for each in (before, after):
        world.counterparty.replies_to[each] = [{"ok": True, "accept": True}, CLOSES]
    async with world.worker(app):
        world.counterparty.before_replying.shut()
        await start(world, before, words=0)
        await world.counterparty.has_accepted()
        world.counterparty.before_accepting.shut()
        world.counterparty.before_replying.open()
        await world.until(lambda: world.counterparty.before_accepting.waiting, "it pays")
        await cancelled(world, before)
        world.counterparty.before_accepting.open()
        await start(world, after, words=0)
        for each in (before, after):
            await world.parked("sale", each)
        await cancelled(world, after)
    await without(world, f"sale/{before}", f"sale/{after}")

    await recovered(world)

    async with world.worker(app):
        for each in (before, after):
            await world.parked("sale", each)
            await world.client.resolve("sale", each, EffectStatus.ABANDONED, by="ann", note="nobody knows")
            assert await world.ended("sale", each) == "cancelled"


async def cancelled(world: World, entity_id: str) -> None:
    """Ask for its end, and wait until it was delivered."""
    await world.db.fetchval("select perdure.cancel('sale', $1, 'bob', 'changed his mind')", entity_id)
    heard = "select delivered_at is not null from perdure.message where id = $1"
    await world.until(lambda: world.db.fetchval(heard, entity_id), "delivered")


async def test_one_that_goes_on_by_itself_is_left_alone(world: World) -> None:
    async with world.worker(app):
        await start(world, "a")
        await world.is_in("sale", "a", "reserved")
        version = await world.db.fetchval("select version from perdure.ident")
    await start(world, "b")
    again = "select perdure.start_again('sale', $1, 0, $2, 'ann', 'lost')"
    assert await world.db.fetchval(again, "b", 0) is False, "its start is on its way"
    assert await world.db.fetchval(again, "a", version - 1) is False, "it was written since"
    assert await world.db.fetchval(again, "a", version) is True
    assert await world.db.fetchval(again, "a", version) is False, "its start is on its way now"
    async with world.worker(app):  # the run that is open goes on, and hears nothing twice
        await world.is_in("sale", "b", "reserved")
        for each in ("a", "b"):
            await world.client.signal("sale", each, "hear", 1)
            assert await world.ended("sale", each) == "paid"
    assert set(world.counterparty.accepted.values()) == {1}


async def test_two_that_recover_at_once_start_each_once(world: World) -> None:
    async with world.worker(app):
        for number in range(20):
            await start(world, str(number), words=0 if number < 10 else 1)
        for number in range(10, 20):
            await world.is_in("sale", number, "reserved")
        for number in range(10):
            await world.ended("sale", number)
    await without(world, *(f"sale/{number}" for number in range(10, 20)))

    both = await asyncio.gather(recovered(world), recovered(world))

    assert sum(each.started for each in both) == 10
    assert await world.db.fetchval("select count(*) from perdure.outbox where kind = 'start'") == 10


async def test_while_temporal_does_not_answer_nothing_counts_as_gone(world: World) -> None:
    async def away() -> None:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    await start(world, "a")
    await world.db.execute("delete from perdure.outbox")
    with pytest.raises(TemporalUnavailable, match="does not answer whether sale/a runs"):
        await recovered_with(world, away)
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0


def test_a_recovery_leaves_an_entity_out_for_a_lock_and_for_no_other_error() -> None:
    seen = Recovered(open=1)
    for held in (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError, asyncpg.QueryCanceledError):
        seen.note_held(held())
    with pytest.raises(asyncpg.DataError):
        seen.note_held(asyncpg.DataError())
    assert seen == Recovered(open=1, held=3)


async def test_one_that_somebody_holds_keeps_no_other_from_going_on(world: World) -> None:
    ids = [str(number) for number in range(5)]
    for each in ids:
        await start(world, each)
    await world.db.execute("delete from perdure.outbox")
    holder = await asyncpg.connect(world.dsn)
    try:
        async with holder.transaction():
            await holder.execute("select from perdure.ident where id = '1' for no key update")
            assert await recovered(world) == Recovered(open=5, started=4, held=1)
        assert await recovered(world) == Recovered(open=5, started=1)
    finally:
        await holder.close()


async def test_a_start_that_was_rejected_or_waits_is_not_delivered_again_in_a_new_epoch(world: World) -> None:
    for each in ("rejected", "open"):
        await start(world, each)
    await world.db.execute("delete from perdure.outbox where id = 'open'")
    await world.db.execute(REJECT)
    await start(world, "waits")
    await world.db.execute("update perdure.database set epoch = extract(epoch from clock_timestamp()) * 1e6")
    await world.db.execute(queries("perdure._services")("start_again"))
    again = "select perdure.start_again('sale', 'rejected', 0, 0, 'ann', 'lost')"
    assert await world.db.fetchval(again) is False, "nor by a person, before that is settled"
    waiting = await world.db.fetch("select id from perdure.outbox order by id")
    assert [row["id"] for row in waiting] == ["open", "waits"]


async def test_a_new_epoch_gives_new_messages_later_places_whatever_ids_the_application_has_given(world: World) -> None:
    await start(world, "a")
    await world.db.execute("select perdure.signal('sale', 'a', 'hear', '1', 'epoch ' || perdure.epoch())")
    await world.db.execute("update perdure.message set ordinal = 3")
    await world.db.execute(queries("perdure._services")("start_again"))
    last = await world.db.fetchrow("select ordinal, kind from perdure.message order by ordinal desc limit 1")
    assert tuple(last or ()) == (1_000_003, "dropped")


async def test_what_a_copy_leaves_to_its_original_is_not_started_again(world: World) -> None:
    await start(world, "a")
    await world.db.execute("delete from perdure.outbox")
    await world.db.execute("update perdure.entity set left_to = 'the original'")
    assert await recovered(world) == Recovered()
    assert await world.db.fetchval("select perdure.start_again('sale', 'a', 0, 0, 'ann', 'lost')") is False


async def test_messages_that_no_run_may_have_processed_are_delivered_again_once(world: World) -> None:
    await start(world, "a")
    for each in MESSAGES:
        await world.db.execute("select perdure.signal('sale', 'a', 'hear', '1', $1)", each)
    await world.db.execute("delete from perdure.outbox where message_id is distinct from 'waiting'")
    await world.db.execute("update perdure.message set ordinal = array_position($1::text[], message_id)", MESSAGES)
    await world.db.execute("update perdure.message set kind = 'dropped' where message_id = 'dropped'")
    await world.db.execute("update perdure.entity set acknowledged = 1, attention = 'its workflow was terminated'")
    await world.db.execute(
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id) "
        "values (0, 'sale', 'a', 0, 'message', '{}', 'a test', 'rejected')"
    )
    assert await world.db.fetchval("select perdure.start_again('sale', 'a', 0, 0, 'ann', 'lost')")
    assert (await world.client.status("sale", "a")).attention is None, "the next run needs nobody yet"
    again = await world.db.fetch("select kind, message_id from perdure.outbox order by kind desc, message_id")
    assert [tuple(row) for row in again] == [("start", None), ("message", "lost"), ("message", "waiting")]


async def test_one_that_was_ended_before_it_wrote_anything_is_started_all_the_same(world: World) -> None:
    await start(world, "a")
    await world.db.execute("delete from perdure.outbox")
    handle = await world.temporal_client.start_workflow(
        KeptSale.run, Sale(), id=f"{world.scope}:sale/a", task_queue="nobody listens here"
    )
    await handle.terminate()
    assert await recovered(world) == Recovered(open=1, ended=1), "it is left to the reconciliation"
    assert await world.db.fetchval("select perdure.start_again('sale', 'a', 0, 0, 'ann', 'it was terminated')")
    async with world.worker(app):
        await world.is_in("sale", "a", "reserved")


async def test_the_engine_that_was_heard_a_moment_ago_is_not_taken_for_lost(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._services.ownership.exchange._RPC", timedelta(seconds=DEADLINE))
    async with world.worker(app):
        await start(world, "a")
        await world.is_in("sale", "a", "reserved")
    await world.temporal_client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=database, workflow_execution_retention_period=DAY)
    )
    converter = world.temporal_client.data_converter
    client = await Client.connect(world.temporal.address, namespace=database, data_converter=converter)
    other = Exchange(client, world.config)
    with pytest.raises(NotNow, match=r"answered . s ago: correct TEMPORAL_ADDRESS"):
        await why_lost(world.db, other)
    assert await why_lost(world.db, Exchange(world.temporal_client, world.config)) is None
    await world.mark_grows_old()
    assert f"here '{database}' is" in str(await why_lost(world.db, other))
    await world.temporal_client.get_workflow_handle(keeper_id(world.scope)).terminate()
    assert await why_lost(world.db, Exchange(world.temporal_client, world.config)) is None, "a worker starts it again"
    await rebound_while_a_worker_exchanges_the_mark(world, other)


async def rebound_while_a_worker_exchanges_the_mark(world: World, other: Exchange) -> None:
    """The last mark counts, and nothing that was ordered before is in doubt."""
    worker = await asyncpg.connect(world.dsn)
    exchanging = worker.transaction()
    await exchanging.start()
    await worker.execute("update perdure.database set mark = 'the last one'")
    binding = asyncio.create_task(rebind(world.db, other, print))
    waits = f"select cardinality(pg_blocking_pids({world.db.get_server_pid()})) > 0"
    watcher = await asyncpg.connect(world.dsn)
    await world.until(lambda: watcher.fetchval(waits), "it waits for the mark")
    await exchanging.commit()
    await in_time(binding)
    row = await watcher.fetchrow("select namespace, epoch from perdure.database")
    assert row is not None
    assert tuple(row) == (other.namespace, 0)
    for each in (worker, watcher):
        await each.close()


async def without_keeper(world: World) -> Exchange:
    """Temporal is lost, and so is the record of an effect that was done."""
    async with world.worker(app):
        await start(world, "a")
        await world.is_in("sale", "a", "reserved")
    await without(world, "sale/a")
    await world.temporal_client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=world.temporal_client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=keeper_id(world.scope)),
        )
    )
    await world.db.execute(LOST_COMMITS)
    exchange = Exchange(world.temporal_client, world.config)
    await world.mark_grows_old()

    async def is_lost() -> bool:
        return await why_lost(world.db, exchange) is not None

    await world.until(is_lost, "the keeper is gone")
    return exchange


async def test_a_promoted_server_beside_a_lost_temporal_begins_an_epoch(world: World) -> None:
    exchange = await without_keeper(world)
    await world.db.execute(f"update perdure.database set timeline = timeline - 1, {OTHER_START}")
    reported: list[str] = []
    await rebind(world.db, exchange, reported.append)
    assert "PostgreSQL was promoted or restored" in reported[0]
    await recovered(world)
    assert await world.db.fetchval("select epoch > 0 from perdure.database")
    async with world.worker(app):
        await world.is_in("sale", "a", "reserved")  # it is looked up
    assert world.counterparty.accepted["sale/a/reserve"] == 1


@pytest.mark.parametrize(
    "found",
    [
        f"system_identifier = system_identifier + 1, {OTHER_START}",
        "stopped = 'its mark is not the last one: it is a copy, or an older state of it or of Temporal was put back'",
    ],
)
async def test_a_copy_or_an_older_state_is_not_bound_to_a_new_temporal_before_it_is_claimed(
    world: World, found: str
) -> None:
    exchange = await without_keeper(world)
    await world.db.execute(f"update perdure.database set {found}")
    with pytest.raises(NotThisDatabase, match=r"is a copy.*: state what this database is: .*; then run this again"):
        await rebind(world.db, exchange, print)
    await claim(world.db, exchange, What.RESTORED, print)
    assert await why_lost(world.db, exchange) is None
    await recovered(world)
    async with world.worker(app):
        await world.is_in("sale", "a", "reserved")  # it is looked up
    assert world.counterparty.accepted["sale/a/reserve"] == 1


async def test_a_cancel_of_an_earlier_generation_does_not_go_with_a_restart(world: World) -> None:
    async with world.worker(app):
        await start(world, "a", words=0)
        end = await world.ended("sale", "a")
    # A relay gave the message its place while the end, which deletes messages, was being committed.
    await world.db.execute(
        """
        insert into perdure.message (lifecycle, id, generation, message_id, kind, name, payload, ordinal)
        values ('sale', 'a', 0, 'perdure-cancel', 'cancel', 'cancel', '{"by": "bob", "note": "too late"}', 1);
        insert into perdure.outbox (lifecycle, id, generation, kind, message_id)
        values ('sale', 'a', 0, 'message', 'perdure-cancel')
        """
    )
    await world.client.restart("sale", "a", by="ann", note="again")
    async with world.worker(app):
        assert await world.ended("sale", "a") == end


async def test_a_server_that_was_restarted_has_lost_nothing(world: World) -> None:
    exchange = await without_keeper(world)
    why = "Temporal has no record of this database: its keeper was ended, or Temporal was lost"
    await world.db.execute(f"update perdure.database set stopped = $1, {OTHER_START}", why)
    await rebind(world.db, exchange, print)
    assert await world.db.fetchval("select epoch = 0 and perdure.database_problem() is null from perdure.database")


async def test_a_database_that_no_worker_has_used_stays_unbound(world: World) -> None:
    await rebind(world.db, Exchange(world.temporal_client, world.config), print)
    assert await world.db.fetchval("select mark is null from perdure.database")


async def test_the_input_that_todays_code_can_not_read_is_said_by_the_run(world: World) -> None:
    async with world.worker(app):
        await start(world, "a")
        await world.is_in("sale", "a", "reserved")
    await without(world, "sale/a")
    await world.db.execute('update perdure.entity set input = \'{"words": "many"}\'')
    await recovered(world)
    async with world.worker(app):

        async def says() -> bool:
            return "the input can't be read" in str((await world.client.status("sale", "a")).attention)

        await world.until(says, "it stands still and says why")


async def test_a_mirror_that_lost_its_row_is_given_it_again(world: World) -> None:
    async with world.worker(app) as temporal_client:
        handle = await temporal_client.start_workflow(
            KeptSale.run, Sale(), id=f"{world.scope}:sale/a", task_queue=world.config.queue
        )
        await world.until(lambda: world.db.fetchval("select true from perdure.entity where state = 'reserved'"), "on")
        await world.db.execute("delete from perdure.entity; delete from perdure.ident; delete from perdure.transition")

        await handle.signal("perdure-mirror", "reconciliation")

        await world.until(lambda: world.db.fetchval("select true from perdure.entity"), "the row")
        row = await world.db.fetchrow("select state, input, generation from perdure.entity")
        assert row is not None
        assert (row["state"], row["generation"]) == ("reserved", 0)
        assert Sale.model_validate_json(row["input"]) == Sale()
        await world.client.signal("sale", "a", "hear", 1)
        assert await world.ended("sale", "a") == "paid"


async def test_a_run_that_waits_ends_where_the_database_says_that_it_is_over(world: World) -> None:
    world.counterparty.replies_to["parked"] = [{"ok": True, "accept": True}, CLOSES]
    async with world.worker(app):
        await start(world, "waits")
        await start(world, "parked", words=0)
        await world.is_in("sale", "waits", "reserved")
        await world.parked("sale", "parked")
        await world.db.execute("update perdure.ident set final = 'paid'; delete from perdure.entity")
        await world.handle("sale", "waits").signal("perdure-mirror", "reconciliation")
        await world.db.execute(WAKE)
        for each in ("waits", "parked"):
            await in_time(world.handle("sale", each).result())
    assert await world.db.fetchval("select count(*) from perdure.entity") == 0


async def everything(world: World) -> list[Any]:
    """All rows of perdure's tables that a recovery could change."""
    tables = ("ident", "entity", "effect", "outbox", "message", "rejected", "transition", "finding")
    return [await world.db.fetch(f"select * from perdure.{table} order by 1, 2, 3") for table in tables]


async def test_what_is_said_after_a_restore_is_heard_by_a_run_that_heard_what_is_lost(world: World) -> None:
    async with world.worker(app):
        await start(world, "a", words=3)
        await world.is_in("sale", "a", "reserved")
        await world.client.signal("sale", "a", "hear", 1)
        await world.client.signal("sale", "a", "hear", 2)
        delivered = "select count(*) = 2 from perdure.message where delivered_at is not null"
        await world.until(lambda: world.db.fetchval(delivered), "delivered")
        await world.db.execute("delete from perdure.message")  # as if they had been committed after the point in time
        await world.db.execute("update perdure.database set epoch = extract(epoch from clock_timestamp()) * 1e6")
        await world.db.execute(queries("perdure._services")("start_again"))

        await world.client.signal("sale", "a", "hear", 3)

        assert await world.ended("sale", "a") == "paid"
    assert await world.db.fetchval("select why from perdure.finished") == "words [1, 2, 3]"
