"""`perdure doubts` lists each effect in doubt, those of finished entities too, with what settles it."""

from __future__ import annotations

import json
import shlex

from perdure.contracts.keys import Key
from tests.command import perdure
from tests.integration.operations.test_list import ENDED, ENTITIES
from tests.world import World

ANN = ("--by", "ann", "--note", "their log has it")


async def test_each_doubt_is_named_with_the_key_that_the_other_side_knows_and_what_settles_it(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(ENDED)
    end = await perdure(world, "doubts", "--json")
    found = [json.loads(line) for line in end.stdout.splitlines()]
    assert [(row["id"], row["state"], row["ended"], row["waits_for_person"]) for row in found] == [
        ("e4", "expired", True, True),
        ("3", "sending", False, False),
        ("4", "sending", False, True),
    ]
    assert found[0]["token"] == Key("order/e4/send").token
    assert found[0]["since"] < found[1]["since"]
    assert found[1]["resolve"] is None
    for wanted, ids in (
        (("--ended",), ["e4"]),
        (("--effect", "send", "--limit", "1"), ["e4"]),
        (("--lifecycle", "order"), ["e4", "3", "4"]),
    ):
        rows = (await perdure(world, "doubts", *wanted, "--json")).stdout.splitlines()
        assert [json.loads(row)["id"] for row in rows] == ids, wanted
    text = (await perdure(world, "doubts", "--ended")).stdout
    assert "expired; outcome unknown" in text
    assert Key("order/e4/send").token in text
    assert text.splitlines()[-1] == found[0]["resolve"]


async def test_the_printed_command_settles_a_doubt_of_an_ended_entity(world: World) -> None:
    await world.db.execute(ENDED)
    await world.db.execute("update perdure.effect set id = 'it''s $5', key = 'order/it''s $5/send' where id = 'e4'")
    for table in ("ident", "finished"):
        await world.db.execute(f"update perdure.{table} set id = 'it''s $5' where id = 'e4'")
    [line] = (await perdure(world, "doubts", "--json")).stdout.splitlines()
    resolve = (
        str(json.loads(line)["resolve"]).replace("OUTCOME", "not_done").replace("YOU", "ann").replace("WHY", "seen")
    )
    program, *words = shlex.split(resolve)
    assert program == "perdure"
    end = await perdure(world, *words)
    assert (end.exit_code, end.stdout) == (0, "order/it's $5: resolved as not_done; it had ended as expired\n"), end
    end = await perdure(world, "doubts")
    assert (end.exit_code, end.stderr) == (1, "perdure: nothing is in doubt\n")


async def test_doubts_that_outlived_their_entities_are_settled_together(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(ENDED)
    await world.db.execute("update perdure.effect set status = 'in_doubt' where id = 'e3'")
    chosen = ("resolve", "--ended", "--lifecycle", "order", "--as", "abandoned", *ANN)
    end = await perdure(world, *chosen, "--dry-run")
    assert [line.split("  ")[:2] for line in end.stdout.splitlines()] == [
        ["order/e3", "sent; outcome unknown"],
        ["order/e4", "expired; outcome unknown"],
    ]
    end = await perdure(world, *chosen, "--state", "expired", "--yes", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert (end.exit_code, end.stdout, end.stderr) == (0, "1 resolved as abandoned\n", "")
    end = await perdure(world, *chosen, "--yes", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert (end.exit_code, end.stdout, end.stderr) == (0, "1 resolved as abandoned\n", "")
    left = await world.db.fetch("select id from perdure.effect where status <> 'abandoned' order by id")
    assert [row["id"] for row in left] == ["2", "3", "4"], "open ones are left alone"
    end = await perdure(world, *chosen, "--attention", "--yes")
    assert (end.exit_code, end.stderr) == (
        2,
        "perdure: beside --ended the filters are --lifecycle, --state and --limit\n",
    )


async def test_the_overview_leads_to_the_doubts_that_nobody_asks_about_any_more(world: World) -> None:
    hint = "`perdure doubts --ended` lists them"
    await world.db.execute(ENTITIES)
    assert hint not in (await perdure(world, "status")).stdout
    await world.db.execute(ENDED)
    assert hint in (await perdure(world, "status")).stdout


async def test_show_names_the_token_of_each_key(world: World) -> None:
    await world.db.execute(ENTITIES)
    text = (await perdure(world, "show", "order", "4")).stdout
    assert Key("k4").token in text
