"""Whoever can write to the database or to Temporal can't make the sealed text of one entity or field open in another.

Each test copies ciphertext as that attacker would, on real servers, and looks at what is posted.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_jsonable_python
from temporalio.contrib.pydantic import pydantic_data_converter

from perdure import Entity
from perdure.encryption import Private
from perdure.errors import InvalidInput, Unopenable
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps import letters
from tests.apps.letters import Letter, Letters, app
from tests.integration.crypto.fixtures import FIRST, keys
from tests.world import World

ANN, BOB = "12 Ann Street", "34 Bob Road"
REFUSED = "to: the key 'first' does not open it for letter/bob: it was sealed for another entity"


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """One whose processes have a key, and seal. Nothing is delivered before the test runs a worker."""
    monkeypatch.setenv("PERDURE_KEYS", FIRST)
    monkeypatch.setenv("PERDURE_SEAL", "true")
    monkeypatch.setattr(letters, "posted", [])
    made = World(postgres, temporal, database, tmp_path)
    made.config = made.config.model_copy(update={**keys(FIRST), "seal": True})
    async with made.made(app) as made:
        await made.client.start(Letters, "ann", letter(ANN, "Dear Ann"))
        await made.client.start(Letters, "bob", letter(BOB, "Dear Bob"))
        yield made


def letter(to: str, text: str) -> Letter:
    """One in plain."""
    return Letter(to=Private(to), text=Private(text))


async def given_to(world: World, id: str) -> dict[str, Any]:
    """The input of an entity, as it stands in its row."""
    found = await world.db.fetchval("select input from perdure.entity where id = $1", id)
    data: dict[str, Any] = json.loads(found)
    assert data["to"].startswith("perdure-sealed:2:first:to:")
    return data


async def put(world: World, id: str, **fields: str) -> None:
    """Write over fields of an entity's input, as whoever can write to its rows."""
    await world.db.execute("update perdure.entity set input = input || $2 where id = $1", id, json.dumps(fields))


async def refused(world: World) -> str:
    """Why bob's letter is not posted: the reason of its effect, as an operator sees it."""

    async def why() -> str | None:
        status = await world.asked("letter", "bob")
        assert letters.posted in ([], [(ANN, "Dear Ann")])
        return next((each.why for each in status.effects if each.why), None)

    reason = str(await world.until(why, "the refusal"))
    assert "\n" not in reason
    assert not [word for word in (ANN, BOB, "Dear", "perdure-sealed") if word in reason]
    return reason


async def test_a_value_sealed_for_the_entity_is_posted(world: World) -> None:
    async with world.worker(app):
        for id in ("ann", "bob"):
            await world.client.signal(Letters, id, Letters.send_off)
            assert await world.ended("letter", id) == "posted"
    assert sorted(letters.posted) == [(ANN, "Dear Ann"), (BOB, "Dear Bob")]
    [effect] = (await world.client.status("letter", "bob")).effects
    assert Private(effect.receipt["to"]).open(Entity("letter", "bob"), "to") == BOB


async def test_copied_into_the_row_of_another_entity_it_does_not_open(world: World) -> None:
    await put(world, "bob", to=(await given_to(world, "ann"))["to"])
    async with world.worker(app):
        await world.client.signal(Letters, "bob", Letters.send_off)
        assert REFUSED in await refused(world)
    assert letters.posted == []


async def test_copied_into_the_message_of_another_entity_it_does_not_open(world: World) -> None:
    await world.client.signal(Letters, "ann", Letters.send_off, letter(ANN, "Dear Ann"))
    await world.client.signal(Letters, "bob", Letters.send_off, letter(BOB, "Dear Bob"))
    await world.db.execute(
        "update perdure.message b set payload = jsonb_set(b.payload, '{to}', a.payload -> 'to') "
        "from perdure.message a where a.id = 'ann' and b.id = 'bob'"
    )
    async with world.worker(app):
        assert REFUSED in await refused(world)
        assert await world.ended("letter", "ann") == "posted"
    assert letters.posted == [(ANN, "Dear Ann")]


async def test_sent_through_temporal_to_another_entity_it_does_not_open(world: World) -> None:
    """Past the database: a payload in plain is taken, and what is sealed in it is refused."""
    stolen = await given_to(world, "ann")
    outsider = await type(world.temporal_client).connect(world.temporal.address, data_converter=pydantic_data_converter)
    async with world.worker(app):
        await world.asked("letter", "bob")
        await outsider.get_workflow_handle(f"{world.scope}:letter/bob").signal("send_off", stolen)
        assert REFUSED in await refused(world)
    assert letters.posted == []


async def test_copied_into_another_field_of_the_same_entity_it_is_not_delivered(world: World) -> None:
    await put(world, "bob", to=(await given_to(world, "bob"))["text"])
    async with world.worker(app):

        async def rejected() -> str | None:
            return (await world.client.status("letter", "bob")).rejected

        reason = str(await world.until(rejected, "the rejection"))
    assert "to: it is a Private of the field 'text'" in reason
    assert "\n" not in reason
    assert letters.posted == []


async def test_a_row_of_the_app_that_holds_the_text_of_another_one_starts_nothing_that_opens_it(world: World) -> None:
    """The app's table holds sealed texts, and starts its entities by SQL."""
    await world.db.execute("create table customer (id text primary key, address text, greeting text)")
    for id, to in (("carl", "1 Carl Lane"), ("dora", "2 Dora Drive")):
        whose = Entity("letter", id)
        sealed = [Private(text).seal(whose, field) for text, field in ((to, "to"), ("Hello", "text"))]
        texts = [to_jsonable_python(each) for each in sealed]
        await world.db.execute("insert into customer values ($1, $2, $3)", id, *texts)
    await world.db.execute(
        "update customer set address = (select address from customer where id = 'dora') where id = 'carl'"
    )
    address = await world.db.fetchval("select address from customer where id = 'carl'")
    with pytest.raises(Unopenable, match="does not open it for letter/carl"):
        Private(address).open(Entity("letter", "carl"), "to")
    with pytest.raises(InvalidInput, match="to: the key 'first' does not open it for letter/carl"):
        await world.client.start(Letters, "carl", Letter(to=Private(address), text=Private("Hello")))
    await world.db.execute(
        "select perdure.start('letter', id, jsonb_build_object('to', address, 'text', greeting)) from customer"
    )
    async with world.worker(app):
        for id in ("carl", "dora"):
            await world.client.signal(Letters, id, Letters.send_off)
        assert await world.ended("letter", "dora") == "posted"

        async def why() -> str | None:
            return next((each.why for each in (await world.asked("letter", "carl")).effects if each.why), None)

        assert "does not open it for letter/carl" in str(await world.until(why, "the refusal"))
    assert letters.posted == [("2 Dora Drive", "Hello")]
