"""What a person does about an effect in doubt: `resolve`, in every outcome, with every refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure._store.postgres import Database, PostgresStore
from perdure._wire.writes import Fence, FenceOp, Write
from perdure.contracts import EffectStatus
from perdure.errors import AlreadyFinished, NotNow
from tests.apps.contracts import Booking
from tests.apps.talking import Ring, RingInline, app
from tests.world import World

both_ways = pytest.mark.parametrize("kind", [Ring, RingInline], ids=["regular", "inline"])
one_way = pytest.mark.parametrize("kind", [Ring], ids=["regular"])
LOST = {"accept": True, "close": True}
UNHEARD = {"accept": False, "close": True}


@both_ways
async def test_an_effect_resolved_as_done_is_not_called_again(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        said = await world.client.resolve(kind, "a", EffectStatus.DONE, by="ann", note="it rang", receipt={"number": 7})
        assert said == "resolved as done"
        assert await world.ended(*_names(kind)) == "done"
    status = await world.client.status(kind, "a")
    assert [(each.status, each.receipt, each.settled_by) for each in status.effects] == [("done", {"number": 7}, "ann")]
    assert world.counterparty.accepted.total() == world.counterparty.seen("do") == 1


@both_ways
async def test_an_effect_resolved_as_not_done_goes_again_with_the_same_key(world: World, kind: Any) -> None:
    async with _parked(world, kind, UNHEARD):
        assert (
            await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="ann", note="silent")
            == "resolved as not_done"
        )
        assert await world.ended(*_names(kind)) == "done"
    assert world.counterparty.accepted == {_key(kind): 1}
    assert world.counterparty.seen("do", _key(kind)) == 2


@one_way
async def test_each_resolution_of_one_effect_has_its_own_answer(world: World, kind: Any) -> None:
    async with _parked(world, kind, UNHEARD, LOST):
        said = await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="ann", note="silent")
        assert said == "resolved as not_done"
        await world.counterparty.saw("do", count=2)
        await _wait_until_parked(world, kind)
        said = await world.client.resolve(kind, "a", EffectStatus.DONE, by="bob", note="it rang", receipt={"number": 1})
        assert said == "resolved as done"
        assert await world.ended(*_names(kind)) == "done"


@both_ways
async def test_an_abandoned_effect_is_only_sent_anew_on_purpose_and_with_a_new_key(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        await world.client.resolve(kind, "a", EffectStatus.ABANDONED, by="ann", note="no matter")
        await world.is_in(*_names(kind), "failed")
        with pytest.raises(NotNow, match="was given up, so a retry would make no call: use send_again"):
            await world.client.retry(kind, "a", by="ann")
        assert await world.client.send_again(kind, "a", by="ann", note="after all") == f"{_slot(kind)} goes anew"
        assert await world.ended(*_names(kind)) == "done"
    assert world.counterparty.accepted == {_key(kind): 1, _key(kind) + "~1": 1}


@one_way
async def test_a_resolution_that_does_not_fit_is_refused_with_a_sentence(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        misfits: dict[str, dict[str, Any]] = {
            f"the receipt does not fit what {_slot(kind)} declares": {
                "outcome": EffectStatus.DONE,
                "receipt": {"number": "seven"},
            },
            "give done, not_done or abandoned": {"outcome": EffectStatus.REFUSED},
            f"effect='do-dance': name one of {_slot(kind)}": {"outcome": EffectStatus.NOT_DONE, "effect": "do-dance"},
        }
        for why, said in misfits.items():
            with pytest.raises(NotNow, match=why):
                await world.client.resolve(kind, "a", by="ann", note="", **said)
        assert (await world.client.status(kind, "a")).effects[0].status == "in_doubt"


@one_way
async def test_while_it_is_in_doubt_a_retry_and_a_cancel_are_refused(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        with pytest.raises(NotNow, match=f"{_slot(kind)} is in doubt, so a retry could repeat it: use"):
            await world.client.retry(kind, "a", by="ann")
        with pytest.raises(NotNow, match=f"{_slot(kind)} is in doubt: resolve it first"):
            await world.client.cancel(kind, "a", by="ann")
        with pytest.raises(NotNow, match="nothing waits to be sent again in state 'doing'"):
            await world.client.send_again(kind, "a", by="ann", note="")


@one_way
async def test_a_parked_effect_is_seen_in_every_view(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        asked = await world.asked(*_names(kind))
        mirror = await world.client.status(kind, "a")
        wants = await world.client.list(kind, attention=True)
    assert asked.state == mirror.state == "doing"
    assert [(each.effect, each.status, each.parked) for each in asked.effects] == [(_slot(kind), "in_doubt", True)]
    assert asked.attention == mirror.attention == wants[0].attention
    assert str(mirror.attention).startswith(f"{_slot(kind)} is in doubt: ConnectionResetError")


@both_ways
async def test_a_doubt_is_resolved_that_is_on_record_before_the_workflow_has_parked_it(world: World, kind: Any) -> None:
    world.counterparty.before_replying.shut()
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        await world.counterparty.saw("do")
        # As on record after the workflow task was lost that has made the same write.
        await world.db.execute("update perdure.effect set status = 'in_doubt'")
        await world.db.execute("update perdure.entity set attention = $1", f"{_slot(kind)} is in doubt: it was cut off")
        said = await world.client.resolve(kind, "a", EffectStatus.DONE, by="ann", note="it rang", receipt={"number": 7})
        assert said == "resolved as done"
        assert await world.ended(*_names(kind)) == "done"


@both_ways
async def test_a_late_done_wakes_the_parked_run(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        await _late_done(world, kind)
        assert await world.ended(*_names(kind)) == "done"
    with pytest.raises(AlreadyFinished, match="too late: already done"):
        await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="ann", note="")
    assert world.counterparty.seen("do") == 1


@one_way
async def test_a_resolution_after_a_late_done_changes_nothing_and_says_so(world: World, kind: Any) -> None:
    world.counterparty.replies.append(LOST)
    async with world.worker(app, relay=False):  # so that nobody tells the run of the late outcome
        await world.temporal_client.start_workflow(
            kind.run, Booking(), id=f"{world.scope}:{_names(kind)[0]}/a", task_queue=world.config.queue
        )
        await _wait_until_parked(world, kind)
        await _late_done(world, kind)
        said = await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="ann", note="")
        assert said == "too late: it had become done meanwhile"
        assert await world.ended(*_names(kind)) == "done"
    assert world.counterparty.seen("do") == 1


@one_way
async def test_a_second_resolution_at_the_same_time_is_refused(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST):
        async with world.holding("perdure.effect"):
            first = asyncio.create_task(
                world.client.resolve(kind, "a", EffectStatus.DONE, by="ann", note="", receipt={"number": 1})
            )
            await world.held_up()
            second = asyncio.create_task(world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="bob", note=""))
            await world.handle(*_names(kind)).describe()
        assert await first == "resolved as done"
        with pytest.raises((NotNow, AlreadyFinished)):
            await second
        assert await world.ended(*_names(kind)) == "done"


@one_way
async def test_a_resolution_of_an_attempt_that_was_followed_by_another_is_refused(world: World, kind: Any) -> None:
    async with _parked(world, kind, LOST, LOST):
        said = await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="ann", note="silent", attempt=1)
        assert said == "resolved as not_done"
        await world.counterparty.saw("do", count=2)
        await _wait_until_parked(world, kind)
        with pytest.raises(NotNow, match=r"attempt 1 of .* is settled: attempt 2 is in doubt"):
            await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="bob", note="silent", attempt=1)
        with pytest.raises(NotNow, match=r"attempt 3 of .* was not made: attempt 2 is in doubt"):
            await world.client.resolve(kind, "a", EffectStatus.NOT_DONE, by="bob", note="silent", attempt=3)
    assert world.counterparty.seen("do") == 2


@asynccontextmanager
async def _parked(world: World, kind: Any, *replies: dict[str, Any]) -> AsyncIterator[None]:
    """A worker, and an entity `a` whose first attempts got these replies."""
    world.counterparty.replies += replies
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        await _wait_until_parked(world, kind)
        yield


async def _wait_until_parked(world: World, kind: Any) -> None:
    async def parked() -> bool:
        row = await world.db.fetchrow("select attention from perdure.entity where id = 'a'")
        return row is not None and row["attention"] is not None

    await world.until(parked, "the effect parked")


async def _late_done(world: World, kind: Any) -> None:
    """As an execution that was taken for lost reports it."""
    database = Database(world.dsn)
    store = PostgresStore(await database.open())
    row = await world.db.fetchrow("select * from perdure.effect where id = 'a'")
    assert row is not None
    fence = Fence(
        op=FenceOp.OUTCOME,
        key=row["key"],
        effect=row["effect"],
        token=row["token"],
        status=EffectStatus.DONE,
        receipt={"number": 1},
    )
    write = Write(lifecycle=row["lifecycle"], id="a", generation=0, version=1, workflow_id="w", fence=fence)
    await store.write(write, patience=5)
    await database.close()


def _names(kind: Any) -> tuple[str, str]:
    return ("ring" if kind is Ring else "ring-inline"), "a"


def _slot(kind: Any) -> str:
    return f"do-{_names(kind)[0]}"


def _key(kind: Any) -> str:
    return f"{_names(kind)[0]}/a/{_slot(kind)}"
