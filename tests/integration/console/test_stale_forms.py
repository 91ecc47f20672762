"""A form that was loaded about one effect does nothing to another effect of the same entity, and one that was loaded
before a limit was changed does not change it back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apps.contracts import Booking
from tests.apps.limited import app as limited
from tests.apps.pairs import Pair, app
from tests.command import perdure
from tests.integration.console.browsing import open_console, readable
from tests.integration.operations.acts import LOST
from tests.world import World

pytestmark = pytest.mark.world(app)

NOTE = "their log has it"
WAITS = (
    "select count(*) = $2 from perdure.entity e join perdure.effect f using (lifecycle, id) "
    "where e.attention is not null and f.effect || ' ' || f.status = $1"
)


async def waiting(world: World, what: str, count: int = 1) -> None:
    """Wait until a person is needed for so many effects."""
    await world.until(lambda: world.db.fetchval(WAITS, what, count), what)


async def test_an_answer_about_one_effect_settles_no_other(world: World) -> None:
    world.counterparty.replies_to = {"a": [LOST, LOST]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Pair, "a", Booking())
        await waiting(world, "reserve-seat in_doubt")
        ann, bob = site.browser("ann", "settle"), site.browser("bob", "settle")
        act = "/act/resolve?lifecycle=pair&id=a"
        assert act.replace("&", "&amp;") in await bob.get("/entity/pair?id=a"), "the button of its page names no effect"
        assert "reserve-seat" in readable(await bob.get(act))
        answer: dict[str, Any] = {"outcome": "done", "receipt": '{"number": 7}', "note": NOTE}
        theirs = await bob.form(act, "/act/resolve")
        await ann.send(act, "/act/resolve", **answer)
        await waiting(world, "charge-card in_doubt")
        late = await bob.http.post("/act/resolve", data={**theirs, **answer})
        assert late.status_code == 409
        assert "pair/a/reserve-seat does not wait for that any more" in readable(late.text)
        assert await world.db.fetchval(WAITS, "charge-card in_doubt", 1)


@pytest.mark.parametrize("verb", ["send-again", "retry"])
async def test_only_the_effect_that_the_form_showed_is_sent_again(world: World, verb: str) -> None:
    world.counterparty.replies_to = {"a": [{"refused": "no seat"}, {}, {"refused": "stolen card"}]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Pair, "a", Booking())
        await waiting(world, "reserve-seat refused")
        ann, bob = site.browser("ann", "settle"), site.browser("bob", "settle")
        act = f"/act/{verb}?lifecycle=pair&id=a"
        if verb == "send-again":
            assert "reserve-seat , refused after 1 attempt What came back no seat" in readable(await bob.get(act))
        theirs = await bob.form(act, f"/act/{verb}")
        await ann.send(act, f"/act/{verb}", note="there are seats again")
        await waiting(world, "charge-card refused")
        late = await bob.http.post(f"/act/{verb}", data={**theirs, "note": "there are seats again"})
        assert late.status_code == 409, readable(late.text)
        assert world.counterparty.seen("do", "pair/a/charge-card") == 1
        sent = await bob.send(act, f"/act/{verb}", note="another card")
        assert sent.status_code == 200, readable(sent.text)
        assert await world.ended("pair", "a") == "done"


async def test_of_several_effects_that_ended_the_one_that_a_person_names_is_sent_again(world: World) -> None:
    world.counterparty.replies_to = {"a": [{"refused": "no seat"}]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Pair, "a", Booking())
        await waiting(world, "reserve-seat refused")
        await world.db.execute("""
            insert into perdure.effect
                (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
            select key || '/more', lifecycle, id, generation, effect || '/more', token || '2', status, digest, first_at,
                attempt_at, deadline from perdure.effect
        """)
        ann, act = site.browser("ann", "settle"), "/act/send-again?lifecycle=pair&id=a"
        assert "Several of its effects ended without being done. Which one?" in readable(await ann.get(act))
        sent = await ann.send(f"{act}&key=pair/a/reserve-seat", "/act/send-again", note="there are seats again")
        assert "reserve-seat goes anew" in readable(sent.text)
        assert await world.ended("pair", "a") == "done"


async def test_an_entity_that_has_gone_on_since_the_form_was_loaded_is_not_cancelled(world: World) -> None:
    world.counterparty.replies_to = {"a": [LOST, {"refused": "stolen card"}]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Pair, "a", Booking())
        await waiting(world, "reserve-seat in_doubt")
        ann, bob = site.browser("ann", "settle"), site.browser("bob", "settle")
        act = "/act/cancel?lifecycle=pair&id=a"
        theirs = await bob.form(act, "/act/cancel")
        settle = "/act/resolve?lifecycle=pair&id=a&key=pair/a/reserve-seat"
        await ann.send(settle, "/act/resolve", outcome="done", receipt='{"number": 7}', note=NOTE)
        await waiting(world, "charge-card refused")
        late = await bob.http.post("/act/cancel", data=theirs)
        assert late.status_code == 409
        assert "has gone on, was restarted or attempted again since the form was loaded" in readable(late.text)
        await bob.send(act, "/act/cancel")
        assert await world.ended("pair", "a") == "cancelled"


@pytest.mark.world(limited)
async def test_who_looked_at_another_rate_does_not_end_a_stop(world: World) -> None:
    async with open_console(world, app=limited) as site:
        ann, path, about = site.browser("ann", "administer"), "/limits/account", ("--app", "tests.apps.limited:app")
        theirs = await ann.form(path, path)
        await perdure(world, "limit", "account", "0", "--by", "bob", "--note", "they are down", *about)
        change: dict[str, Any] = {"rate_of": "number", "per_second": "12", "note": "a little faster"}
        late = await ann.http.post(path, data={**theirs, **change})
        assert late.status_code == 409
        words = "account was set to 0 a second by bob since the form was loaded: they are down. Load it again"
        assert words in readable(late.text)
        assert "0 a second, set by bob" in readable(await ann.get(path))
        assert "they are down" in readable(await ann.get(path))
        sent = await ann.send(path, path, **change)
        assert "account: 12 a second, for all workers" in readable(sent.text)
