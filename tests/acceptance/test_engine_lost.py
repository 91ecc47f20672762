"""After Temporal lost its whole database, every open lifecycle goes on from the app's database (invariant 9)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.temporal_server import TemporalOnPostgres
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import AlreadyFinished, NotNow, TemporalUnavailable
from perdure.servers.postgres import PostgresServer
from tests.apps.lasting import Sale, app
from tests.deadline import in_time, until_count
from tests.world import World

EACH = 20
KINDS = ("sale", "forgetful-sale")
ACCEPTED_UNHEARD, CLOSES = {"close": True, "accept": True}, {"close": True}


@pytest.fixture
def temporal_client() -> Iterator[TemporalOnPostgres]:
    """The real server, with nobody else on it."""
    with TemporalOnPostgres() as server:
        yield server


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal_client: TemporalOnPostgres, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """A world of sales on it."""
    async with World(postgres, temporal_client, database, tmp_path).made(app) as made:
        yield made


async def test_of_200_lifecycles_none_is_lost_and_no_effect_happens_twice(
    world: World, temporal_client: TemporalOnPostgres
) -> None:
    asleep_until = await on_their_way(world)
    await lost(world, temporal_client)
    said = await command(world, "recover", "--yes", "--by", "ann", "--note", "the cluster burnt down")
    assert f"{9 * EACH} open: 0 run, " in said, "all but what was paid for has lost its workflow"
    await two_workers(world)
    begun, back_at = time.monotonic(), datetime.now(UTC)
    await reach(world, "reserved", "waits", "told", "reserving", "unaccepted", "unstarted")
    await reach(world, "paid", "late")
    await reach(world, "refused", "refused")
    parked = "select count(*) from perdure.entity where attention like 'pay%'"
    await world.until(lambda: world.db.fetchval(f"select ({parked}) = {EACH}"), "all that were parked are so again")
    recovered = time.monotonic() - begun
    assert "0 start again" in await command(world, "recover")
    await brought_to_their_ends(world)

    ends = await world.db.fetch("select id, state, finished_at from perdure.finished")
    assert len({row["id"] for row in ends}) == len(ends) == 10 * EACH
    expired = [row for row in ends if row["state"] == "expired"]
    assert {row["id"].partition("-")[0] for row in expired} == {"asleep"}
    assert len(expired) == EACH
    assert all(row["finished_at"] > asleep_until for row in expired)
    # Their time goes on, and does not begin anew with the recovery.
    soon = max(asleep_until, back_at) + timedelta(seconds=max(10.0, 3 * recovered))
    assert all(row["finished_at"] < soon for row in expired)
    assert sum(row["state"] == "paid" for row in ends) == 9 * EACH
    assert set(world.counterparty.accepted.values()) == {1}
    assert world.counterparty.accepted.total() == 10 * EACH + 9 * EACH
    words = "select distinct why from perdure.transition where state = 'paid' and id like 'told-%'"
    assert [row["why"] for row in await world.db.fetch(words)] == ["words [1, 2]"]


async def on_their_way(world: World) -> datetime:
    """Two hundred in all kinds of states; the time until which some of them sleep."""
    other = world.counterparty
    for number in range(EACH):
        other.replies_to[f"parked-{number}"] = [{"accept": True}, ACCEPTED_UNHEARD if number % 2 else CLOSES]
        other.replies_to[f"refused-{number}"] = [{"refused": "sold out"}]
    worker = await world.spawn("tests.apps.lasting:app", PAY_TIMEOUT="12")
    begun = time.monotonic()
    await start(world, "parked", Sale(words=0))
    for name, words in (("paid", 0), ("waits", 1), ("late", 1), ("refused", 1), ("told", 2)):
        await start(world, name, Sale(words=words))
    await reach(world, "paid", "paid")
    await reach(world, "refused", "refused")
    await reach(world, "reserved", "waits", "late", "told")
    await tell(world, "told", 1)
    parked = "select count(*) from perdure.entity where attention like 'pay%'"
    await world.until(lambda: world.db.fetchval(f"select ({parked}) = {EACH}"), "parked")
    # Much longer than it takes this machine to come as far as they must be when all is lost.
    lasts = max(25.0, 2 * (time.monotonic() - begun))
    until = datetime.now(UTC) + timedelta(seconds=lasts)
    await start(world, "asleep", Sale(words=9, until=until), Sale(words=9, lasts=lasts))
    await reach(world, "reserved", "asleep")
    await world.until(lambda: world.db.fetchval("select not exists (select from perdure.outbox)"), "all is delivered")
    other.before_replying.shut()
    await start(world, "reserving", Sale())
    await world.until(lambda: other.seen("do", "reserving") == EACH, "accepted, and not answered")
    other.before_accepting.shut()
    await start(world, "unaccepted", Sale())
    await world.until(lambda: other.seen("do", "unaccepted") > 0, "under way, and not accepted")
    await worker.kill()
    for number in range(EACH):
        if other.seen("do", f"/unaccepted-{number}/"):
            other.replies_to[f"unaccepted-{number}"] = [CLOSES]
    for gate in (other.before_accepting, other.before_replying):
        gate.open()
    await start(world, "unstarted", Sale())
    await tell(world, "late", 1)
    return until


async def lost(world: World, temporal_client: TemporalOnPostgres) -> None:
    """Temporal is gone with all that it had, and an empty one is in its place. Somebody sees it a minute later."""
    await asyncio.to_thread(temporal_client.forget)
    await asyncio.to_thread(temporal_client.start)
    await world.mark_grows_old()


async def brought_to_their_ends(world: World) -> None:
    """People and apps say what is left to say."""
    await tell(world, "told", 2)
    for name in ("waits", "reserving", "unaccepted", "unstarted"):
        await tell(world, name, 1)
    happened = {key.split("/")[1] for key in world.counterparty.accepted if key.endswith("/pay")}
    while doubts := await world.db.fetch(
        "select lifecycle, id from perdure.entity where attention like 'pay%' limit 10"
    ):
        await asyncio.gather(*(settle(world, *row, happened=row["id"] in happened) for row in doubts))
    refused = await world.db.fetch("select lifecycle, id from perdure.entity where state = 'refused'")
    await asyncio.gather(*(world.client.retry(row["lifecycle"], row["id"], by="ann") for row in refused))
    await reach(world, "reserved", "refused")
    await tell(world, "refused", 1)
    finished = "select count(*) from perdure.finished"
    await until_count(lambda: world.db.fetchval(finished), 10 * EACH, "ends")


async def settle(world: World, lifecycle: str, entity_id: str, *, happened: bool) -> None:
    """Say what happened. Who has no answer in time, or too late a one, looks again who is still in doubt."""
    outcome, receipt = (EffectStatus.DONE, {"number": 1}) if happened else (EffectStatus.NOT_DONE, None)
    with suppress(AlreadyFinished, NotNow, TemporalUnavailable):
        await world.client.resolve(lifecycle, entity_id, outcome, by="ann", note="their list", receipt=receipt)


async def start(world: World, name: str, sale: Sale, forgetful: Sale | None = None) -> None:
    """Start fifty of that name in a transaction, half of them of each kind."""
    for kind, given in zip(KINDS, (sale, forgetful or sale), strict=True):
        ids = [f"{name}-{number}" for number in range(KINDS.index(kind), EACH, 2)]
        call = "select perdure.start($1, x, $2::jsonb) from unnest($3::text[]) x"
        await world.db.execute(call, kind, given.model_dump_json(), ids)


async def tell(world: World, name: str, word: int) -> None:
    """Say a word to all of that name."""
    call = (
        "select perdure.signal(lifecycle, id, 'hear', to_jsonb($2::int)) from perdure.entity where id like $1 || '-%'"
    )
    await world.db.execute(call, name, word)


async def reach(world: World, state: str, *names: str) -> None:
    """Wait until all of these names are in the state."""
    table, column = ("perdure.ident", "final") if state == "paid" else ("perdure.entity", "state")
    count = f"select count(*) from {table} where {column} = $2 and split_part(id, '-', 1) = any($1)"
    what = f"{', '.join(names)} in {state}"
    await until_count(lambda: world.db.fetchval(count, list(names), state), EACH * len(names), what)


async def two_workers(world: World) -> None:
    """A fleet again."""
    await asyncio.gather(*(world.spawn("tests.apps.lasting:app", PAY_TIMEOUT="12") for _ in range(2)))


async def command(world: World, *arguments: str) -> str:
    """What `perdure` says; it must succeed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", *arguments),
        env=world.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await in_time(process.communicate())
    assert process.returncode == 0, error.decode()
    return out.decode()
