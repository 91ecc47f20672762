"""`perdure list` selects the open entities that its filters describe."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from perdure._operations import selection
from perdure._operations.condition import Condition
from perdure._operations.selection import Selection, count, oldest, pages
from tests.command import APP, perdure, process
from tests.terminal import at_terminal
from tests.world import World

ENTITIES = """
    select perdure.start('order', n::text, '{}', tenant => 't' || n % 2) from generate_series(1, 6) n;
    select perdure.start('parcel', 'p', '{}');
    delete from perdure.outbox where id <> '1';
    update perdure.entity
        set state = 'sending', since = now() - id::int * interval '1 hour' where id in ('2', '3', '4');
    update perdure.entity set stuck_at = now() - interval '1 s' where id = '3';
    update perdure.entity set stuck_at = now() + interval '1 h' where id = '4';
    update perdure.entity set attention = 'send is in doubt: nobody knows whether it has gone, or where to'
        where id = '4';
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        values ('k4', 'order', '4', 0, 'send', 't', 'in_doubt', 'd', now(), now(), now() + interval '1 h'),
            ('k3', 'order', '3', 0, 'send', 't', 'attempting', 'd', now(), now(), now() - interval '1 h'),
            ('k2', 'order', '2', 0, 'send', 't', 'attempting', 'd', now(), now(), now() + interval '1 h');
"""


SELECTIONS = [
    (Selection(), "3 4 2 1 5 6 p"),
    (Selection(lifecycle="parcel"), "p"),
    (Selection(lifecycle="order", state="sending"), "4 3 2"),
    (Selection(condition=Condition.NOT_PICKED_UP), "1"),
    (Selection(condition=Condition.HELD), "2"),
    (Selection(condition=Condition.HOLDER_GONE), "3"),
    (Selection(condition=Condition.WAITS, lifecycle="order"), "4 5 6"),
    (Selection(older_than=timedelta(minutes=150)), "4 3"),
    (Selection(in_doubt=True), "4 3"),
    (Selection(attention=True), "4"),
    (Selection(stuck=True), "3"),
    (Selection(tenant="t1"), "3 1 5"),
    (Selection(tenant="t1", state="sending", in_doubt=True), "3"),
    (Selection(id="5"), "5"),
    (Selection(limit=2), "4 3"),
    (Selection(state="nowhere"), ""),
]
MEANT_NOTHING: list[tuple[tuple[str, ...], int, str]] = [
    (("--lifecycle", "ordre"), 2, "no lifecycle is named 'ordre'; did you mean 'order'? [PERDURE-4101]"),
    (
        ("--lifecycle", "order", "--state", "snding"),
        2,
        "no state of order is named 'snding'; did you mean 'sending'? [PERDURE-4101]",
    ),
    (("--state", "xyz"), 2, "no state is named 'xyz'; there are: sending, starting [PERDURE-4101]"),
    (("--older-than", "10"), 2, "'10' is no duration: write 90s, 10m, 2h or 3d [PERDURE-4101]"),
    (("--condition", "finished"), 1, "nothing is finished"),
    (("--finished", "--tenant", "t1"), 1, "nothing that is finished matches"),
    (
        ("--finished", "--attention"),
        2,
        "--attention, --stuck, --finding and --condition are of open ones: leave out --finished",
    ),
    (("--since", "2h"), 2, "--since and --before are of finished ones: give --finished, too"),
    (
        ("--finished", "--since", "yore"),
        2,
        "'yore' is no time: write 2026-07-01, 2026-07-01T12:00Z, or 2h for two hours ago [PERDURE-4101]",
    ),
    (("--tenant", "nobody"), 1, "nothing that is open matches"),
    (("--lifecycle", "lookup", *APP), 1, "nothing that is open matches"),
    (("--state", "expired", *APP), 1, "nothing that is open matches"),
]


async def test_a_selection_means_these(world: World) -> None:
    await world.db.execute(ENTITIES)
    for wanted, ids in SELECTIONS:
        found = [row.id for row in await oldest(world.db, wanted)]
        assert sorted(found) == sorted(ids.split()), wanted
        assert await count(world.db, wanted) == len(found), wanted
        unlimited = [page async for page in pages(world.db, replace(wanted, limit=None))]
        assert set(found) <= {row.id for page in unlimited for row in page}, wanted


async def test_whoever_acts_on_each_meets_everyone_once_whatever_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "PAGE", 3)
    await world.db.execute(ENTITIES)
    met: list[str] = []
    async for page in pages(world.db, Selection(limit=6)):
        assert len(page) <= 3
        met += [row.id for row in page]
        await world.db.execute("update perdure.entity set since = clock_timestamp(), state = 'elsewhere'")
    assert met == ["1", "2", "3", "4", "5", "6"]


async def test_the_longest_in_their_state_are_listed_first_and_lines_are_cut_on_a_terminal_only(world: World) -> None:
    await world.db.execute(ENTITIES)
    end = await perdure(world, "list", "--limit", "2", "--lifecycle", "order")
    doubt = "send is in doubt: nobody knows whether it has gone, or where to"
    assert end.stdout.splitlines() == [
        "entity   generation  state    for  condition    attention",
        f"order/4  0           sending  4 h  waits        {doubt}",
        "order/3  0           sending  3 h  holder gone",
    ]
    assert (end.exit_code, end.stderr) == (0, "perdure: 2 of 6; --limit shows more\n")
    terminal = await perdure(world, "list", "--attention", COLUMNS="90", FORCE_COLOR="1")
    assert "send is in doubt" in terminal.stdout
    assert "…" in terminal.stdout
    assert "order/4" in terminal.stdout


async def test_json_is_one_object_a_line(world: World) -> None:
    await world.db.execute(ENTITIES)
    end = await perdure(world, "list", "--json", "--older-than", "150m", "--in-doubt", "--tenant", "t1")
    [row] = [json.loads(line) for line in end.stdout.splitlines()]
    assert (row["lifecycle"], row["id"], row["state"], row["condition"]) == ("order", "3", "sending", "holder-gone")
    assert 3 <= row["age"] / 3600 < 3.1


async def test_a_filter_that_means_nothing_is_one_line(world: World) -> None:
    await world.db.execute(ENTITIES)
    for arguments, status, line in MEANT_NOTHING:
        end = await perdure(world, "list", *arguments)
        assert (end.exit_code, end.stdout, end.stderr) == (status, "", f"perdure: {line}\n")


async def test_the_command_ends_with_the_status_and_the_line_that_are_documented(world: World) -> None:
    await world.db.execute(ENTITIES)
    matches, misses, broken = await asyncio.gather(
        process(world, "list", "--attention"),
        process(world, "list", "--lifecycle", "ordre"),
        process(world, "list", "--app", "nowhere:app"),
    )
    assert matches[0] == 0
    assert matches[1].splitlines()[1].startswith("order/4  0           sending  4 h  waits      send is in doubt: ")
    assert misses == (2, "", "perdure: no lifecycle is named 'ordre'; did you mean 'order'? [PERDURE-4101]\n")
    assert (broken[0], broken[1], broken[2].count("\n")) == (2, "", 1)
    assert broken[2].startswith("perdure: 'nowhere:app': there is no module 'nowhere'")


ENDED = """
    select perdure.start('order', 'e' || n, '{}', tenant => 't' || n % 2) from generate_series(1, 4) n;
    delete from perdure.outbox where id like 'e%';
    insert into perdure.finished (lifecycle, id, generation, state, created_at, finished_at, tenant)
        select lifecycle, id, 0, case id when 'e4' then 'expired' else 'sent' end, created_at,
            now() - substr(id, 2)::int * interval '1 second', tenant
        from perdure.entity where id like 'e%';
    delete from perdure.entity where id like 'e%';
    update perdure.ident set final = case id when 'e4' then 'expired' else 'sent' end where id like 'e%';
    insert into perdure.transition (lifecycle, id, generation, version, state)
        values ('order', 'e1', 0, 1, 'sent'), ('order', 'e4', 0, 1, 'expired');
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        values
            ('order/e4/send', 'order', 'e4', 0, 'send', 't', 'in_doubt', 'd', now(), now() - interval '1 day', now()),
            ('order/e3/send', 'order', 'e3', 0, 'send', 't', 'done', 'd', now(), now(), now());
"""
FINISHED = [
    ((), "e1 e2 e3 e4"),
    (("--state", "sent"), "e1 e2 e3"),
    (("--in-doubt",), "e4"),
    (("--tenant", "t1"), "e1 e3"),
    (("--lifecycle", "order", "--limit", "2"), "e1 e2"),
    (("--since", "1m"), ""),
    (("--older-than", "1h"), ""),
    (("--since", "1h"), "e1 e2 e3 e4"),
]


async def test_finished_ones_are_listed_the_newest_first(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(ENDED)
    await world.db.execute("update perdure.finished set finished_at = finished_at - interval '10 min'")
    for arguments, ids in FINISHED:
        for finished in (("--finished",), ("--condition", "finished")):
            end = await perdure(world, "list", *finished, *arguments, "--json")
            found = [json.loads(line) for line in end.stdout.splitlines()]
            assert [row["id"] for row in found] == ids.split(), arguments
            assert {row["condition"] for row in found} <= {"finished"}
    shown = (await perdure(world, "list", "--finished", "--state", "expired")).stdout.splitlines()
    assert shown[0].split() == ["entity", "generation", "state", "finished", "at"]
    assert shown[1].split()[:3] == ["order/e4", "0", "expired"]


async def test_a_watched_list_is_shown_again_after_a_change(world: World) -> None:
    await world.db.execute(ENTITIES)
    watching = ("list", "--lifecycle", "parcel", "--watch", "--every", "0.1")
    async with at_terminal(world, *watching) as command, at_terminal(world, "status", "--watch") as overview:
        await world.until(lambda: "parcel/p" in command.text and "waits" in command.text, "the list")
        await world.until(lambda: "oldest" in overview.text, "the overview")
        await world.db.execute("update perdure.entity set state = 'sending' where id = 'p'")
        await world.until(lambda: "sending" in command.text, "the new state")
        await world.db.execute("alter schema perdure rename to elsewhere")
        try:
            await world.until(lambda: "perdure: " in command.text, "the reason why it can't be read")
            before = len(command.text)
        finally:
            await world.db.execute("alter schema elsewhere rename to perdure")
        await world.until(lambda: "parcel/p" in command.text[before:], "the list again")
        for each in (command, overview):
            each.interrupt()
            assert await each.ended() == 130
    end = await perdure(world, "list", "--watch")
    assert (end.exit_code, end.stderr) == (
        2,
        "perdure: --watch is for a terminal, and for a person: leave out --watch\n",
    )
