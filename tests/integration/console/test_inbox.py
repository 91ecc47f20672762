"""The inbox shows of each kind what waits for a person, and says nothing else about the rest."""

from __future__ import annotations

import pytest

from perdure._operations.doubts import DoubtSelection, read_doubts
from perdure._operations.inbox import GROUPS
from perdure._operations.overview import read_overview
from perdure._operations.problems import problems
from perdure.telemetry import names
from tests.apps import twin
from tests.apps.contracts import Booking
from tests.apps.talking import app
from tests.deadline import until
from tests.integration.console.browsing import open_console, readable
from tests.integration.console.test_settling import links
from tests.integration.operations.acts import LOST
from tests.integration.telemetry.test_metrics import metered
from tests.world import World

pytestmark = pytest.mark.world(app)

REASONS = GROUPS + 10
"""Of as many doubts of `ring`; one `slow` was refused."""
MANY = f"""
    select perdure.start('ring', n::text, '{{}}') from generate_series(1, {REASONS}) n;
    select perdure.start('slow', 'a', '{{}}');
    update perdure.entity set attention = 'do-ring is in doubt: ?', state = 'doing' where lifecycle = 'ring';
    update perdure.entity set attention = 'refused: no funds', state = 'failed' where lifecycle = 'slow';
    insert into perdure.effect
        (lifecycle, id, generation, key, effect, status, first_at, attempt_at, deadline, digest, token, why)
        select 'ring', n::text, 0, 'ring/' || n || '/do-ring', 'do-ring', 'in_doubt', now(), now(), now(), '', 'x',
            'request ' || n || ' timed out' from generate_series(1, {REASONS}) n;
"""


async def test_many_groups_of_one_kind_hide_no_group_of_another(world: World) -> None:
    await world.db.execute(MANY)
    async with open_console(world, app=app) as site:
        ann = site.browser("ann", "settle")
        everything = readable(await ann.get("/inbox"))
        assert "refused: no funds" in everything
        assert f"All {REASONS} in doubt: do-ring of ring , in {REASONS} groups" in everything
        assert "There are more groups than are shown" in everything
        slow = readable(await ann.get("/inbox?lifecycle=slow"))
        assert "refused: no funds" in slow
        assert "do-ring" not in slow
        assert "There are more groups than are shown" not in slow


async def test_a_filter_says_that_nothing_of_this_waits(world: World) -> None:
    await world.db.execute(MANY)
    async with open_console(world, app=app) as site:
        text = readable(await site.browser("ann", "settle").get("/inbox?lifecycle=ring&effect=do-other"))
        assert "Only do-other of ring is shown" in text
        assert "Nothing of this waits for a person." in text


async def test_what_was_rejected_waits_for_those_who_may_see_its_tenant(world: World) -> None:
    await world.db.execute(
        "select perdure.start('ring', 'a', '{}', tenant => 'acme');"
        "with gone as (delete from perdure.outbox returning *) insert into perdure.rejected"
        " (seq, lifecycle, id, generation, kind, body, reason)"
        " select seq, lifecycle, id, generation, kind, body, 'its input does not fit' from gone"
    )
    async with open_console(world, app=app) as site:
        text = readable(await site.browser("ann", "settle:ring@acme").get("/inbox"))
        assert "1 rejected: start of ring its input does not fit" in text
        assert "Nothing waits for a person." in readable(await site.browser("bob", "settle:ring@other").get("/inbox"))


@pytest.mark.world(twin.app)
async def test_a_doubt_whose_policy_is_at_work_waits_for_no_person(world: World) -> None:
    """The entity needs one, because another effect of it was refused."""
    world.counterparty.mute = True
    world.counterparty.replies_to = {"a": [LOST, {"refused": "no funds"}]}
    async with metered(world, twin.app) as here, open_console(world, app=twin.app) as site:
        await world.client.start("twin", "a", Booking())

        async def both() -> bool:
            return bool(
                await world.db.fetchval(
                    "select exists (select from perdure.effect f join perdure.entity e using (lifecycle, id) "
                    "where f.status = 'in_doubt' and f.effect = 'do-asked' and e.state = 'failed')"
                )
            )

        await until(both, "one is looked up, the other was refused")
        await here.gauges.once()
        assert await here.value(names.PARKED, lifecycle="twin") == 0
        assert await here.value(names.ATTENTION, lifecycle="twin") == 1
        [doubt] = await read_doubts(world.db, DoubtSelection())
        assert not doubt.waits_for_person
        assert await read_doubts(world.db, DoubtSelection(waiting=True)) == []
        found = [each.sentence for each in problems(await read_overview(world.db), [])]
        assert found == ["1 of twin needs a person (failed)"]
        ann = site.browser("ann", "settle")
        [link] = {each for each in links(await ann.get("/inbox")) if each.startswith("/inbox/")}
        assert link.startswith("/inbox/attention")
        assert "do-plain was refused: no funds" in readable(await ann.get(link))
        form = readable((await ann.http.get("/act/resolve?lifecycle=twin&id=a")).text)
        assert "the doubt policy of do-asked is at work: no person is asked yet" in form
        world.counterparty.mute = False
