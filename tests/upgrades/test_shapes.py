"""Inputs, snapshots and receipts of an older shape: today's code reads them, or the entity stands still and says so."""

from __future__ import annotations

import pytest

from perdure._services.relay import Relay
from tests.upgrades import shapes
from tests.upgrades.editions import edition
from tests.upgrades.ground import Ground, follows, replays
from tests.upgrades.rows import row
from tests.world import World

LETTER = shapes.NAME


@pytest.fixture
def ground(world: World) -> Ground:
    return Ground(world, LETTER)


async def _tell(ground: Ground, word: str) -> None:
    await ground.world.handle(LETTER, "a").signal("tell", word)


@row("lifecycle's input: field added with a default", "field removed")
@pytest.mark.parametrize(("after", "colour"), [(shapes.InputWithDefault, "black"), (shapes.InputUpcast, "blue")])
async def test_an_input_with_other_fields_is_read_by_defaults_and_validators(
    ground: Ground, after: type, colour: str
) -> None:
    async with ground.worker(shapes.Before):
        await ground.start({"to": "eve", "copies": 3})
        await _tell(ground, "a word")
        assert await ground.world.query(LETTER, "a", "restored") == "a word"  # else its task dies with the worker
    async with ground.worker(after):
        await _tell(ground, "send")
        assert await ground.end() == "done"
    assert await ground.world.db.fetchval("select why from perdure.finished") == colour
    assert await ground.failures() == 0


async def test_what_only_newer_workers_know_of_an_input_is_delivered_by_an_older_ones_relay(ground: Ground) -> None:
    await ground.client.start(LETTER, "a", {"to": "eve", "colour": "red"})
    await Relay(
        ground.world.client._pool, ground.world.temporal_client, edition(shapes.Before), ground.world.config
    ).once()
    async with ground.worker(shapes.InputDemanding):
        await _tell(ground, "send")
        assert await ground.end() == "done"
    assert await ground.world.db.fetchval("select why from perdure.finished") == "red"


@row("lifecycle's input: field added without")
async def test_an_input_that_only_later_code_can_read_waits_for_that_and_wants_a_person(ground: Ground) -> None:
    await ground.client.start(LETTER, "a", {"to": "eve"})
    await Relay(
        ground.world.client._pool, ground.world.temporal_client, edition(shapes.Before), ground.world.config
    ).once()
    async with ground.worker(shapes.InputDemanding):
        assert await ground.wants_a_person() == "the input can't be read: colour: Field required"
    async with ground.worker(shapes.InputDemanding):  # replays, and stands still
        await ground.client.retry(LETTER, "a", by="ann", note="try")
        assert (await ground.world.asked(LETTER)).attention == "the input can't be read: colour: Field required"
    async with ground.worker(shapes.InputUpcast):
        await ground.client.retry(LETTER, "a", by="ann", note="try")
        await ground.wants_nobody()
        await _tell(ground, "send")
        assert await ground.end() == "done"
    assert await ground.failures() == 0
    await replays(edition(shapes.InputUpcast), await ground.histories(), ground.world)


@row("lifecycle's input: field added without")
async def test_what_stands_still_can_be_cancelled_and_be_followed_later(ground: Ground) -> None:
    await ground.client.start(LETTER, "a", {"to": "eve"})
    await Relay(
        ground.world.client._pool, ground.world.temporal_client, edition(shapes.Before), ground.world.config
    ).once()
    async with ground.worker(shapes.InputDemanding):
        assert await ground.wants_a_person() == "the input can't be read: colour: Field required"
        await ground.client.cancel(LETTER, "a", by="ann", note="not needed any more")
        assert await ground.end() == "cancelled"
    assert await ground.world.db.fetchval("select why from perdure.finished") == "not needed any more"
    assert ground.other.seen("do") == 0
    assert await ground.failures() == 0
    histories = await ground.histories()
    assert await follows(shapes.InputDemanding, histories)
    assert await follows(shapes.InputUpcast, histories)


@row("lifecycle's input: field added without")
async def test_an_input_that_was_read_before_and_can_not_be_now_is_shown_and_waits_for_the_next_deploy(
    ground: Ground,
) -> None:
    async with ground.worker(shapes.Before):
        await ground.start({"to": "eve"})
    async with ground.worker(shapes.InputDemanding):
        await _tell(ground, "send")
        attention = await ground.wants_a_person()
        assert attention.startswith("its code fails: UnreadableRecord")
        assert "the input was read by an earlier version of this code" in attention
    assert ground.other.seen("do") == 0
    async with ground.worker(shapes.InputUpcast):
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1


@row("snapshot: the same")
async def test_a_snapshot_that_can_not_be_read_waits_for_code_that_can(ground: Ground) -> None:
    async with ground.worker(shapes.Before):
        await ground.start({"to": "eve"})
        await _tell(ground, "hello")
        await ground.world.query(LETTER, "a", "restored")
    async with ground.worker(shapes.SnapshotDemanding):
        await _tell(ground, "renew")
        assert await ground.wants_a_person() == "the snapshot can't be read: by: Field required"
    kept = await ground.world.db.fetchval("select snapshot->>'word' from perdure.entity")
    assert kept == "renew", "what can't be read is not written over"
    async with ground.worker(shapes.SnapshotDemanding):  # replays, and stands still
        await ground.client.retry(LETTER, "a", by="ann", note="try")
        assert (await ground.world.asked(LETTER)).attention is not None
    async with ground.worker(shapes.SnapshotWithDefault):
        await ground.client.retry(LETTER, "a", by="ann", note="try")
        await ground.wants_nobody()
        assert await ground.world.query(LETTER, "a", "restored") == "renew"
        await _tell(ground, "send")
        assert await ground.end() == "done"
    assert await ground.failures() == 0
    runs = await ground.histories()
    assert len(runs) == 2
    await replays(edition(shapes.SnapshotWithDefault), runs, ground.world)


@row("receipt: the same")
async def test_a_receipt_that_can_not_be_read_waits_for_code_that_can_and_nothing_is_sent_again(
    ground: Ground,
) -> None:
    async with ground.worker(shapes.Before):
        await ground.start({"to": "eve"})
        await ground.doubt()
        await _tell(ground, "send")
        await ground.wants_a_person()
    # a worker that was taken for lost, and that ran the code of before, reports late
    await ground.world.db.execute("""update perdure.effect set status = 'done', receipt = '{"number": 1}'""")
    async with ground.worker(shapes.ReceiptDemanding):
        await ground.world.handle(LETTER, "a").signal("perdure-wake", "letter/a/send-letter")
        await ground.wants("the receipt of send-letter can't be read: stamp: Field required")
    async with ground.worker(shapes.ReceiptWithDefault):
        await ground.client.retry(LETTER, "a", by="ann", note="try")
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("effect's input: field added or removed")
async def test_what_is_sent_must_not_change_while_it_is_unsettled_and_if_it_does_nothing_is_sent(
    ground: Ground,
) -> None:
    ground.other.replies = [{"not_done": "busy"}] * 1000
    async with ground.worker(shapes.Before):
        await ground.start({"to": "eve"})
        await _tell(ground, "send")
        await ground.other.saw("do", count=2)
    before = ground.other.seen("do")
    async with ground.worker(shapes.SendsMore):
        await ground.wants("an earlier attempt under this key had another input")
        assert ground.other.seen("do") == before
        ground.other.replies = []
        await ground.client.send_again(LETTER, "a", by="ann", note="with its weight")
        assert await ground.end() == "done"
    assert list(ground.other.accepted) == ["letter/a/send-letter~1"]
    assert await ground.failures() == 0
