"""`perdure show` prints everything about one entity, and nothing of its input."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.acceptance.bookings import commit_bookings, parked
from tests.apps.bodies import app
from tests.apps.bookings import Count
from tests.apps.contracts import Booking
from tests.command import APP, nobody, perdure, shown, stands
from tests.integration.operations.refused_row import refuse_state
from tests.world import World

_PLACE = re.compile(r" at \w+\.py:\d+$")
"""Where an error was raised: of others' errors only that and their kind is kept."""

NOT_THEN_LOST: list[dict[str, Any]] = [{"not_done": "busy"}, {"accept": True, "close": True}]


@pytest.mark.parametrize("kind", ["lookup", "lookup-inline"])
async def test_every_attempt_and_look_up_of_every_round_is_told(world: World, kind: str) -> None:
    world.counterparty.replies = [*NOT_THEN_LOST]
    async with world.worker(app) as client:
        await commit_bookings(world, [kind], ["a"])
        await world.ended(kind, "a")
        await world.client.restart(kind, "a", by="ann", note="once more")

        async def both_rounds() -> bool:
            return len((await shown(world, kind, "a"))["tries"]) == 4

        await world.ended(kind, "a")
        await world.until(both_rounds, "both runs in Temporal's list")
    found = await shown(world, kind, "a")
    told = [
        (each["kind"], each["number"], each["outcome"], _PLACE.sub("", each["why"] or "") or None)
        for each in found["tries"]
    ]
    assert told == [
        ("attempt", 1, "not_done", "busy"),
        ("attempt", 2, "in_doubt", "ConnectionResetError"),
        ("look-up", 1, "done", None),
        ("attempt", 1, "done", None),
    ]
    assert [each["generation"] for each in found["tries"]] == [0, 0, 0, 1]
    assert not [each for each in found["tries"] + found["effects"] if "receipt" in each]
    with_payloads = await shown(world, kind, "a", "--payloads")
    receipts = [each["receipt"] for each in with_payloads["tries"]]
    assert receipts == [None, None, {"number": 1}, {"number": 2}]
    inline = kind.endswith("-inline")
    assert {each["effect"] for each in found["tries"]} == {f"do-{kind}"}
    assert {each["worker"] for each in found["tries"]} == {None if inline else client.identity}
    assert {each["inline"] for each in found["tries"]} == {inline}
    assert all(each["began"] and 0 <= each["took"] < 3600 for each in found["tries"])
    fence = [(each["generation"], each["status"], each["attempts"], each["settled_by"]) for each in found["effects"]]
    assert fence == [(0, "done", 2, "look-up"), (1, "done", 1, None)]
    moves = [(each["generation"], each["state"], each["made_by"]) for each in found["transitions"]]
    assert [each[:2] for each in moves] == [
        *[(0, "starting"), (0, "doing"), (0, "done"), (1, "starting"), (1, "doing"), (1, "done")]
    ]
    assert (1, "starting", "ann") in moves
    text = (await perdure(world, "show", kind, "a")).stdout
    assert f"{kind}/a~1: done since" in text
    assert "attempt 2  " in text
    of_history = text[text.index("attempts and look-ups") :]
    assert re.findall(rf"^do-{kind} +(\d) +(attempt|look-up) \d ", of_history, re.MULTILINE) == [
        *[("0", "attempt"), ("0", "attempt"), ("0", "look-up"), ("1", "attempt")]
    ]
    assert "in doubt" in text


async def test_an_input_that_was_null_is_not_called_lost(world: World) -> None:
    await world.db.execute("select perdure.start('lookup', 'a', null)")
    assert ", input 0 bytes" in (await perdure(world, "show", "lookup", "a")).stdout


async def test_a_waiting_entity_shows_the_reason_and_payloads_on_request(world: World) -> None:
    world.counterparty.replies = [{"accept": True, "close": True}, {"not_done": "busy", "retry_after": 600}]
    async with world.worker(app):
        await world.client.start("escalate", "escalate", Booking(what="a secret"))
        await parked(world, "escalate")
        await world.client.start("repeat", "a", Booking())
        await world.client.start("counter", "a", Count())
        later = "select perdure.signal('counter', 'a', 'tell', '\"a secret\"', not_before => now() + interval '1 h')"
        assert await world.db.fetchval(later) == "sent"
        until = await stands(world, "repeat", "a", "waits", lambda sentence: "until" in sentence)
        assert until.endswith("UTC (do-repeat was not done: busy: next step)")
        await stands(world, "counter", "a", "waits", lambda sentence: sentence == "it waits for a message")
        [message] = (await shown(world, "counter", "a"))["messages"]
        assert (message["name"], message["delivered_at"], message["waits"]) == ("tell", None, True)
    found = await perdure(world, "show", "escalate", "escalate")
    doubt = "do-escalate is in doubt: ConnectionResetError at calls.py:"
    assert f"waits: it waits for a person: {doubt}" in found.stdout
    assert f"workflow {world.scope}:escalate/escalate in namespace default" in found.stdout
    for lifecycle, entity_id in (("escalate", "escalate"), ("counter", "a")):
        for more in ((), ("--json",)):
            assert "secret" not in (await perdure(world, "show", lifecycle, entity_id, *more)).stdout
            assert "secret" in (await perdure(world, "show", lifecycle, entity_id, "--payloads", *more)).stdout


async def test_without_temporal_the_rest_is_shown_and_the_exit_status_says_so(world: World) -> None:
    await world.client.start("lookup", "a/ö", Booking())
    await world.db.execute("delete from perdure.outbox")
    await world.db.execute(
        "insert into perdure.finding (kind, lifecycle, id, what, advice, run) "
        "values ('stuck', 'lookup', 'a/ö', 'longer than it should be', 'perdure retry lookup a/ö', 1)"
    )
    stuck = "update perdure.entity set stuck_at = now() - interval '51 h 30 min', attention = 'look at it'"
    await world.db.execute(stuck)
    away = {"TEMPORAL_ADDRESS": nobody(), "PERDURE_WEB_UI": "http://ui.example/"}
    end = await perdure(world, "show", "lookup", "a/ö", *APP, **away)
    assert end.exit_code == 1
    assert end.stderr.startswith(f"perdure: no Temporal server answers at {away['TEMPORAL_ADDRESS']}")
    assert end.stderr.count("\n") == 1
    assert "lookup/a/ö: starting since" in end.stdout
    assert "stuck for 2 d 3 h" in end.stdout
    assert "waits: it waits for a person: look at it" in end.stdout
    assert f"http://ui.example/namespaces/default/workflows/{world.scope}%3Alookup%2Fa%2F%C3%B6" in end.stdout
    assert "perdure retry lookup a/ö" in end.stdout
    data = await perdure(world, "show", "lookup", "a/ö", "--json", **away)
    assert data.exit_code == 1
    assert json.loads(data.stdout)["problem"] in data.stderr


async def test_a_row_of_the_app_that_refuses_the_state_is_named_with_the_reason(world: World) -> None:
    await refuse_state(world, "no-number")
    (row,) = (await shown(world, "lookup", "no-number"))["behind"]
    assert (row["app_table"], row["tries"]) == ("public.numbered", 1)
    end = await perdure(world, "show", "lookup", "no-number", *APP)
    why = r"InvalidTextRepresentationError \(SQLSTATE 22P02\) \(tries: 1, the next at .*\)"
    assert re.search(rf"^the row of public\.numbered does not show this state: {why}$", end.stdout, re.MULTILINE)


async def test_an_unknown_entity_is_reported_in_one_line(world: World) -> None:
    await world.client.start("lookup", "a", Booking())
    rolled_back = "there is no lookup/b: it was never started, or its transaction was rolled back [PERDURE-2101]"
    for arguments, status, line in (
        (("lookup", "b"), 1, rolled_back),
        (("lookup", "a\nb"), 1, rolled_back.replace("lookup/b", r"'lookup/a\nb'")),
        (("lokup", "a"), 2, "no lifecycle is named 'lokup'; did you mean 'lookup'? [PERDURE-4101]"),
    ):
        end = await perdure(world, "show", *arguments)
        assert (end.exit_code, end.stdout, end.stderr) == (status, "", f"perdure: {line}\n")


async def test_show_includes_rows_of_dropped_months_and_acts_of_people(world: World) -> None:
    await world.client.start("lookup", "a", Booking())
    await world.db.execute(
        "with gone as (delete from perdure.transition returning *) "
        "insert into perdure.carried_transition select * from gone"
    )
    await world.db.execute("select perdure.note('lookup', 'a', 'ann', 'looked at it')")
    found = await shown(world, "lookup", "a")
    told = [(each["state"], each["why"], each["made_by"]) for each in found["transitions"]]
    assert told == [("starting", None, None), ("starting", "looked at it", "ann")]
