"""`perdure show` finds the condition of an entity from the database and Temporal."""

from __future__ import annotations

import json
import re

from perdure._operations.condition import Condition, assess
from perdure._operations.entity import facts_of, read_record
from perdure._operations.overview import read_overview
from perdure._operations.selection import Selection, oldest
from tests.acceptance.bookings import commit_bookings
from tests.apps.contracts import Booking
from tests.command import perdure, shown, stands
from tests.world import World

BOTH = ["lookup", "lookup-inline"]
EVERY_CONDITION = """
    select perdure.start('a', n, '{}') from unnest(array['start', 'later', 'again', 'told', 'wanted', 'held', 'gone',
        'both', 'parked', 'waits', 'old generation']) n;
    delete from perdure.outbox where id <> 'start';
    update perdure.entity set attention = 'x is in doubt: ?' where id = 'parked';
    insert into perdure.outbox (lifecycle, id, generation, kind, due_at, not_before) values
        ('a', 'later', 0, 'start', now() + interval '1 h', now() + interval '1 h'),
        ('a', 'again', 0, 'start', null, now()),
        ('a', 'told', 0, 'wake', null, now() + interval '1 min'), ('a', 'both', 0, 'wake', null, now()),
        ('a', 'wanted', 0, 'wake', now() + interval '1 h', now());
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        select id || seconds, 'a', id, case id when 'old generation' then 7 else 0 end, 'x', 't', status, 'd',
            now(), now(), now() + make_interval(secs => seconds)
        from (values ('held', 'attempting', 60), ('held', 'attempting', -60), ('gone', 'attempting', -60),
            ('both', 'attempting', -60), ('again', 'attempting', 60), ('parked', 'in_doubt', -60),
            ('waits', 'done', 60), ('old generation', 'attempting', -60)) f(id, status, seconds);
"""


async def test_list_status_and_show_tell_the_same_from_the_database(world: World) -> None:
    await world.db.execute(EVERY_CONDITION)
    rows = await oldest(world.db, Selection())
    found = {row.id: row.condition for row in rows}
    for row in rows:
        assert assess(facts_of(await read_record(world.db, "a", row.id), None, None)).condition is row.condition, row
    assert {id: condition for id, condition in found.items() if condition is not Condition.WAITS} == {
        **dict.fromkeys(["start", "again", "told"], Condition.NOT_PICKED_UP),
        **dict.fromkeys(["gone", "both"], Condition.HOLDER_GONE),
        "held": Condition.HELD,
    }
    counts = (await read_overview(world.db))["conditions"]
    assert counts == {each.value: list(found.values()).count(each) for each in Condition}


async def test_an_attempt_is_held_and_when_its_worker_is_killed_its_holder_is_gone(world: World) -> None:
    world.counterparty.before_accepting.shut()
    worker = await world.spawn(BOOKING_TIMEOUT="60")
    await commit_bookings(world, BOTH)
    await world.counterparty.saw("do", count=2)
    for kind in BOTH:  # the relay records that it has delivered a start after the run may have begun
        await world.until_delivered(kind, kind)
    regular, inline = [(await shown(world, kind, kind)) for kind in BOTH]
    assert (regular["condition"], inline["condition"]) == ("held", "held")
    [running] = regular["tries"]
    assert (running["outcome"], running["worker"]) == ("under way", worker_of(regular["sentence"]))
    assert f"-{worker.pid}-" in running["worker"]
    assert worker_of(inline["sentence"]) == running["worker"]
    assert re.match(r"do-lookup: attempt 1 runs at \S+ for .* s, (no|last) heartbeat", regular["sentence"])
    await worker.kill()

    # Temporal has given up one by its heartbeats, and the other by the time-out of its workflow task.
    for kind in BOTH:
        assert "a workflow task waits for a worker" in await stands(world, kind, kind, "not-picked-up")
    [lost_one] = (await shown(world, "lookup", "lookup"))["tries"]
    assert (lost_one["outcome"], lost_one["why"]) == ("lost", "no answer: heartbeat")
    assert lost_one["took"] >= 2
    await world.db.execute("update perdure.effect set deadline = now() - interval '1 s'")
    listed = await perdure(world, "list", "--condition", "holder-gone", "--json")
    assert {json.loads(line)["id"] for line in listed.stdout.splitlines()} == set(BOTH)


async def test_a_frozen_worker_is_gone_until_it_goes_on(world: World) -> None:
    world.counterparty.before_accepting.shut()
    worker = await world.spawn()
    await commit_bookings(world, ["repeat-inline"])
    await world.counterparty.saw("do", count=1)
    await stands(world, "repeat-inline", "repeat-inline", "held")
    await worker.freeze()
    await world.db.execute("update perdure.effect set deadline = now() - interval '1 s'")
    lost = await stands(world, "repeat-inline", "repeat-inline", "holder-gone")
    assert re.fullmatch(
        r"a workflow task with do-repeat-inline: attempt 1 began (at \S+ )?.* ago, and its last sign of life was .* ago"
        r"; Temporal waits until ..:..:.. UTC, then another worker goes on; do-repeat-inline: it is made again",
        lost,
    )
    world.counterparty.before_accepting.open()
    worker.thaw()
    assert await stands(world, "repeat-inline", "repeat-inline", "finished") == "it ended as done"


async def test_a_task_without_a_worker_is_not_picked_up(world: World) -> None:
    await commit_bookings(world, ["lookup"], ["a"])
    assert "its start waits for a relay, for" in await stands(world, "lookup", "a", "not-picked-up")
    await world.db.execute("delete from perdure.outbox")
    assert (await stands(world, "lookup", "a", "holder-gone")).startswith("Temporal has no workflow of it: `perdure")
    workflow = await world.temporal_client.start_workflow(
        "lookup", Booking(), id=f"{world.scope}:lookup/a", task_queue=world.config.queue
    )
    waits = await stands(world, "lookup", "a", "not-picked-up", lambda sentence: "a workflow task" in sentence)
    assert waits.endswith(f"and no worker polls {world.config.queue}")
    await workflow.terminate()
    assert (await stands(world, "lookup", "a", "holder-gone")).startswith("its workflow is terminated: `perdure")


def worker_of(sentence: str) -> str:
    found = re.search(r" at (\S+) for ", sentence)
    assert found is not None, sentence
    return found[1]
