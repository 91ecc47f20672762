"""A rolling deploy: workers of the release before and of this one, side by side on this one's schema."""

from __future__ import annotations

import asyncio
import os
import sys
import zipfile
from pathlib import Path

import pytest

from perdure import Client
from perdure._store.schema.files import order
from perdure.contracts import EffectStatus
from tests.replay.record import RELEASES, release
from tests.upgrades import both
from tests.world import FreshWorkerProcess, World

ROOT = RELEASES.parents[1]
PURCHASE = "purchase"


def _previous_release() -> Path:
    """Wheel of the newest release before this one; where there is none, this one's as it was when it was recorded."""

    def age(wheel: Path) -> tuple[bool, tuple[int, ...]]:
        return wheel.parent.name != release(), order(wheel.parent.name)

    return max(RELEASES.glob("*/*.whl"), key=age)


class OldWorker(FreshWorkerProcess):
    """`perdure worker` of the wheel that is unpacked in `folder`."""

    def __init__(self, world: World, folder: Path) -> None:
        paths = os.pathsep.join([str(folder), str(ROOT)])
        super().__init__(world, "tests.upgrades.both:app", {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"})
        self._folder = folder

    async def launch(self) -> None:
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "perdure.cli", "worker", self.app),
                cwd=self._folder,  # what is looked for first
                env=self._environment,
                stderr=log,
                stdout=log,
            )


@pytest.fixture
async def old(world: World, tmp_path: Path) -> OldWorker:
    """A worker of the release before, that runs on a schema which the next release has migrated."""
    await world.db.execute("update perdure.applied_function set release = '999.0.0'")
    folder = tmp_path / "old"
    with zipfile.ZipFile(_previous_release()) as wheel:
        wheel.extractall(folder)
    worker = OldWorker(world, folder)
    world.workers.append(worker)
    await worker.start()
    return worker


def _client(world: World) -> Client:
    """Today's, that knows no class."""
    return Client(world.client._pool, config=world.config, temporal_client=world.temporal_client)


def _made_by(world: World, folder: Path, key: str) -> set[bool]:
    """Whether the calls with this key were made by the release in `folder`."""
    return {str(each["library"]).startswith(str(folder)) for each in world.counterparty.requests if key in each["key"]}


async def test_the_release_before_leads_lifecycles_to_their_end_on_this_ones_schema(
    world: World, old: OldWorker
) -> None:
    await world.db.execute("insert into booking (id) values ('a')")
    world.counterparty.replies = [{"refused": "no"}]
    await _client(world).start(PURCHASE, "a", {"what": "this"})  # today's client, the relay of before
    await world.is_in(PURCHASE, "a", "failed")
    await world.client.retry(PURCHASE, "a", by="ann", note="now")
    assert await world.ended(PURCHASE, "a") == "ordered"
    await world.until(lambda: world.db.fetchval("select state = 'ordered' from booking"), "the column shows it")
    assert _made_by(world, old._folder, "purchase/a") == {True}


async def test_this_release_ends_the_runs_of_the_previous_one(world: World, old: OldWorker) -> None:
    world.counterparty.replies = [{"ok": True, "accept": True, "close": True}, {"refused": "no"}]
    await _client(world).start(PURCHASE, "doubtful", {})

    async def parked() -> bool:
        return (await world.client.status(PURCHASE, "doubtful")).attention is not None

    await world.until(parked, "parked")
    await _client(world).start(PURCHASE, "refused", {})
    await world.is_in(PURCHASE, "refused", "failed")
    assert await old.stop() == 0
    async with world.worker(both.app):
        receipt = {"number": 1}
        await world.client.resolve(PURCHASE, "doubtful", EffectStatus.DONE, by="ann", note="seen", receipt=receipt)
        await world.client.retry(PURCHASE, "refused", by="ann", note="now")
        assert await world.ended(PURCHASE, "doubtful") == await world.ended(PURCHASE, "refused") == "ordered"
    assert _made_by(world, old._folder, "purchase/doubtful") == {True}
    assert _made_by(world, old._folder, "purchase/refused") == {True, False}
    assert world.counterparty.accepted.total() == 1 + 1


async def test_both_releases_share_a_task_queue_and_do_everything_once(world: World, old: OldWorker) -> None:
    many = 40
    async with world.worker(both.app, max_cached_workflows=2):
        for number in range(many):
            await _client(world).start(PURCHASE, number, {})
        ends = await asyncio.gather(*(world.ended(PURCHASE, number) for number in range(many)))
    assert set(ends) == {"ordered"}
    assert sorted(world.counterparty.accepted.values()) == [1] * many
    assert _made_by(world, old._folder, "purchase/") == {True, False}, "both had a part in it"
