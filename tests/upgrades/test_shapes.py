"""Inputs, snapshots and receipts of an older shape: today's code reads them, or the entity stands still and says so."""

from __future__ import annotations

import pytest

from perdure._services.relay import Relay
from tests.command import perdure
from tests.upgrades import shapes
from tests.upgrades.edited_entity import EditedEntity, follows, replays
from tests.upgrades.editions import edition
from tests.upgrades.rows import row
from tests.world import World

LETTER = shapes.NAME


@pytest.fixture
def entity(world: World) -> EditedEntity:
    return EditedEntity(world, LETTER)


async def _tell(entity: EditedEntity, word: str) -> None:
    await entity.world.handle(LETTER, "a").signal("tell", word)


@row("lifecycle's input: field added with a default", "field removed")
@pytest.mark.parametrize(("after", "colour"), [(shapes.InputWithDefault, "black"), (shapes.InputUpcast, "blue")])
async def test_an_input_with_other_fields_is_read_by_defaults_and_validators(
    entity: EditedEntity, after: type, colour: str
) -> None:
    async with entity.worker(shapes.Before):
        await entity.start({"to": "eve", "copies": 3})
        await _tell(entity, "a word")
        assert await entity.world.query(LETTER, "a", "restored") == "a word"  # else its task dies with the worker
    async with entity.worker(after):
        await _tell(entity, "send")
        assert await entity.end() == "done"
    assert await entity.world.db.fetchval("select why from perdure.finished") == colour
    assert await entity.failures() == 0


async def test_an_input_with_newer_fields_is_delivered_by_an_older_relay(
    entity: EditedEntity,
) -> None:
    await entity.client.start(LETTER, "a", {"to": "eve", "colour": "red"})
    await Relay(
        entity.world.client._pool, entity.world.temporal_client, edition(shapes.Before), entity.world.config
    ).once()
    async with entity.worker(shapes.InputDemanding):
        await _tell(entity, "send")
        assert await entity.end() == "done"
    assert await entity.world.db.fetchval("select why from perdure.finished") == "red"


@row("lifecycle's input: field added without")
async def test_an_input_that_only_later_code_can_read_waits_for_that_and_wants_a_person(entity: EditedEntity) -> None:
    await entity.client.start(LETTER, "a", {"to": "eve"})
    await Relay(
        entity.world.client._pool, entity.world.temporal_client, edition(shapes.Before), entity.world.config
    ).once()
    async with entity.worker(shapes.InputDemanding):
        assert await entity.wants_a_person() == "the input can't be read: colour: Field required"
    async with entity.worker(shapes.InputDemanding):  # replays, and stands still
        await entity.client.retry(LETTER, "a", by="ann", note="try")
        assert (await entity.world.asked(LETTER)).attention == "the input can't be read: colour: Field required"
    async with entity.worker(shapes.InputUpcast):
        await entity.looks_again()
        await entity.wants_nobody()
        await _tell(entity, "send")
        assert await entity.end() == "done"
    assert await entity.failures() == 0
    await replays(edition(shapes.InputUpcast), await entity.histories(), entity.world)


@row("lifecycle's input: field added without")
async def test_a_run_that_stands_still_can_be_cancelled_and_replayed_later(entity: EditedEntity) -> None:
    await entity.client.start(LETTER, "a", {"to": "eve"})
    await Relay(
        entity.world.client._pool, entity.world.temporal_client, edition(shapes.Before), entity.world.config
    ).once()
    async with entity.worker(shapes.InputDemanding):
        assert await entity.wants_a_person() == "the input can't be read: colour: Field required"
        await entity.client.cancel(LETTER, "a", by="ann", note="not needed any more")
        assert await entity.end() == "cancelled"
    assert await entity.world.db.fetchval("select why from perdure.finished") == "not needed any more"
    assert entity.other.seen("do") == 0
    assert await entity.failures() == 0
    histories = await entity.histories()
    assert await follows(shapes.InputDemanding, histories)
    assert await follows(shapes.InputUpcast, histories)


async def test_an_input_that_is_corrected_as_the_runbook_shows_lets_the_entity_continue(entity: EditedEntity) -> None:
    await entity.client.start(LETTER, "a", {"to": "eve"})
    await Relay(
        entity.world.client._pool, entity.world.temporal_client, edition(shapes.Before), entity.world.config
    ).once()
    async with entity.worker(shapes.InputDemanding):
        assert await entity.wants_a_person() == "the input can't be read: colour: Field required"
        await entity.world.handle(LETTER, "a").terminate()
        corrected = """update perdure.entity set input = '{"to": "eve", "colour": "red"}', attention = null"""
        await entity.world.db.execute(corrected)
        end = await perdure(entity.world, "retry", LETTER, "a", "--by", "ann")
        assert end.exit_code == 0, end.output
        await entity.world.until_delivered(LETTER, "a")
        await entity.wants_nobody()
        await _tell(entity, "send")
        assert await entity.end() == "done"
    assert await entity.world.db.fetchval("select why from perdure.finished") == "red"


@row("lifecycle's input: field added without")
async def test_an_input_that_was_read_before_and_can_not_be_now_is_shown_and_waits_for_the_next_deploy(
    entity: EditedEntity,
) -> None:
    async with entity.worker(shapes.Before):
        await entity.start({"to": "eve"})
    async with entity.worker(shapes.InputDemanding):
        await _tell(entity, "send")
        attention = await entity.wants_a_person()
        assert attention.startswith("its code fails: UnreadableRecord")
        assert "the input was read by an earlier version of this code" in attention
    assert entity.other.seen("do") == 0
    async with entity.worker(shapes.InputUpcast):
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1


@row("snapshot: the same")
async def test_a_snapshot_that_can_not_be_read_waits_for_code_that_can(entity: EditedEntity) -> None:
    async with entity.worker(shapes.Before):
        await entity.start({"to": "eve"})
        await _tell(entity, "hello")
        await entity.world.query(LETTER, "a", "restored")
    async with entity.worker(shapes.SnapshotDemanding):
        await _tell(entity, "renew")
        assert await entity.wants_a_person() == "the snapshot can't be read: by: Field required"
    kept = await entity.world.db.fetchval("select snapshot->>'word' from perdure.entity")
    assert kept == "renew", "what can't be read is not written over"
    async with entity.worker(shapes.SnapshotDemanding):  # replays, and stands still
        await entity.client.retry(LETTER, "a", by="ann", note="try")
        assert (await entity.world.asked(LETTER)).attention is not None
    async with entity.worker(shapes.SnapshotWithDefault):
        await entity.looks_again()
        await entity.wants_nobody()
        assert await entity.world.query(LETTER, "a", "restored") == "renew"
        await _tell(entity, "send")
        assert await entity.end() == "done"
    assert await entity.failures() == 0
    runs = await entity.histories()
    assert len(runs) == 2
    await replays(edition(shapes.SnapshotWithDefault), runs, entity.world)


@row("receipt: the same")
async def test_a_receipt_that_can_not_be_read_waits_for_code_that_can_and_nothing_is_sent_again(
    entity: EditedEntity,
) -> None:
    async with entity.worker(shapes.Before):
        await entity.start({"to": "eve"})
        await entity.doubt()
        await _tell(entity, "send")
        await entity.wants_a_person()
    # a worker that was taken for lost, and that ran the code of before, reports late
    await entity.world.db.execute("""update perdure.effect set status = 'done', receipt = '{"number": 1}'""")
    async with entity.worker(shapes.ReceiptDemanding):
        await entity.world.handle(LETTER, "a").signal("perdure-wake", "letter/a/send-letter")
        await entity.wants("the receipt of send-letter can't be read: stamp: Field required")
    async with entity.worker(shapes.ReceiptWithDefault):
        await entity.looks_again()
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("effect's input: field added or removed")
async def test_a_changed_input_of_an_unsettled_effect_is_not_sent(
    entity: EditedEntity,
) -> None:
    entity.other.replies = [{"not_done": "busy"}] * 1000
    async with entity.worker(shapes.Before):
        await entity.start({"to": "eve"})
        await _tell(entity, "send")
        await entity.other.saw("do", count=2)
    before = entity.other.seen("do")
    async with entity.worker(shapes.SendsMore):
        await entity.wants("an earlier attempt under this key had another input")
        assert entity.other.seen("do") == before
        entity.other.replies = []
        await entity.client.send_again(LETTER, "a", by="ann", note="with its weight")
        assert await entity.end() == "done"
    assert list(entity.other.accepted) == ["letter/a/send-letter~1"]
    assert await entity.failures() == 0
