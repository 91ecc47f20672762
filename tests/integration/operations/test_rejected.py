"""`perdure rejected`: what could not be delivered goes again, or is given up, by somebody whose name is on record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner, Result

from perdure._wire.writes import Move
from perdure.cli import cli
from tests.apps.listening import app
from tests.integration.store.stores import a_write
from tests.world import World

pytestmark = pytest.mark.world(app)

REJECT = """
    with gone as (delete from perdure.outbox where id = $1 and kind = $2 returning *), shown as (
        update perdure.entity set attention = 'rejected: it does not fit' where id = $1)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id, priority)
    select seq, lifecycle, id, generation, kind, body, 'it does not fit', message_id, priority from gone returning seq
"""
START, SIGNAL = "select perdure.start('listener', $1, $2)", "select perdure.signal('listener', $1, $2, $3)"
WITH_ID = "select perdure.signal('listener', $1, $2, $3, message_id => $4)"
DROP, RETRY = "select perdure.drop_rejected($1, 'ann', 'a test')", "select perdure.retry_rejected($1, 'ann', 'fixed')"
LAST = "select state, why, made_by, attention from perdure.transition order by at desc limit 1"
TABLES = ("ident", "entity", "outbox", "message", "rejected")


async def perdure(world: World, *arguments: str, given: str | None = None) -> Result:
    """Run `perdure rejected` in this process."""
    environment = {"PERDURE_DATABASE_URL": world.dsn}
    return await asyncio.to_thread(CliRunner().invoke, cli, ["rejected", *arguments], given, environment)


async def rejected(world: World, entity_id: str = "a", kind: str = "start", given: str = "{}") -> int:
    """An entity with something that was rejected."""
    if kind == "start":
        await world.db.execute(START, entity_id, given)
    return int(await world.db.fetchval(REJECT, entity_id, kind))


async def counts(world: World) -> dict[str, int]:
    return {table: await world.db.fetchval(f"select count(*) from perdure.{table}") for table in TABLES}


async def record(world: World) -> Sequence[Any]:
    """The newest transition."""
    return tuple(await world.db.fetchrow(LAST) or ())


async def test_a_start_with_its_input_corrected_runs(world: World) -> None:
    await world.db.execute(START, "a", '{"numbers": "none"}')
    async with world.worker(app):
        seq = await world.until(lambda: world.db.fetchval("select seq from perdure.rejected"), "rejected")
        assert (await world.client.status("listener", "a")).attention is not None
        end = await perdure(
            world, "retry", str(seq), "--by", "ann", "--note", "typo", "--input", "-", given='{"numbers": [7]}'
        )
        assert (end.exit_code, end.stdout) == (0, f"{seq}: start delivered again\n")
        await world.is_in("listener", "a", "open")
        assert (await world.client.status("listener", "a")).attention is None
    why = "select why, made_by from perdure.transition where why is not null"
    assert tuple(await world.db.fetchrow(why) or ()) == (f"rejected start {seq}, delivered again: typo", "ann")
    assert await world.db.fetchval("select input -> 'numbers' from perdure.entity") == "[7]"


async def test_a_message_that_is_delivered_again_is_heard_after_those_that_went_before_it(world: World) -> None:
    await world.db.execute(START, "a", "{}")
    for number in ("1", '"two"', "3"):
        await world.db.execute(SIGNAL, "a", "add", number)
    async with world.worker(app):
        seq = await world.until(lambda: world.db.fetchval("select seq from perdure.rejected"), "rejected")
        await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.outbox"), "the others heard")
        await world.db.execute("update perdure.message set payload = '2' where payload = '\"two\"'")
        assert (await perdure(world, "retry", str(seq), "--by", "ann")).exit_code == 0
        await world.db.execute(SIGNAL, "a", "close", None)
        assert await world.ended("listener", "a") == "closed"
    assert await world.db.fetchval("select snapshot -> 'numbers' from perdure.finished") == "[1, 3, 2]"


async def test_a_first_start_that_is_dropped_never_was_and_can_be_made_again(world: World) -> None:
    seq = await rejected(world)
    await world.db.execute(SIGNAL, "a", "add", "1")
    end = await perdure(world, "drop", str(seq), "--by", "ann", "--note", "a test")
    assert (end.exit_code, end.stdout) == (0, f"{seq}: start dropped\n")
    assert await counts(world) == dict.fromkeys(TABLES, 0)
    assert await record(world) == ("starting", f"rejected start {seq}, dropped: a test", "ann", None)
    assert await world.db.fetchval(START, "a", "{}") == "started"


async def test_a_restart_that_is_dropped_leaves_the_entity_finished_as_it_was(world: World) -> None:
    async with world.worker(app):
        await world.db.execute(START, "a", '{"numbers": [1]}')
        await world.db.execute(SIGNAL, "a", "close", None)
        assert await world.ended("listener", "a") == "closed"
    before = await world.client.status("listener", "a")
    assert await world.client.restart("listener", "a", by="ann", note="once more") == 1
    seq = await rejected(world, kind="start")
    await world.db.execute(SIGNAL, "a", "add", "1")
    assert await world.db.fetchval(DROP, seq) == "start"
    assert await world.client.status("listener", "a") == before
    assert await world.db.fetchval("select version = (select max(version) from perdure.transition) from perdure.ident")
    assert (await counts(world)) == {"ident": 1, **dict.fromkeys(TABLES[1:], 0)}
    assert (await record(world))[0] == "closed"
    assert await world.client.restart("listener", "a", by="ann", note="and again") == 1


async def test_a_message_that_is_dropped_harms_none_of_the_others(world: World) -> None:
    await world.db.execute(START, "a", "{}")
    await world.db.execute(SIGNAL, "a", "add", "1")
    seq = await rejected(world, kind="message")
    await world.db.execute(SIGNAL, "a", "add", "2")
    assert await world.db.fetchval(DROP, seq) == "message"
    assert await counts(world) == {"ident": 1, "entity": 1, "outbox": 2, "message": 2, "rejected": 0}
    what = "select payload, delivered_at is not null from perdure.message where kind = 'dropped'"
    gone = await world.db.fetchrow(what)
    assert gone is not None
    assert tuple(gone) == (None, True), "only its place stays taken"
    assert await record(world) == ("starting", f"rejected message {seq}, dropped: a test", "ann", None)


async def test_a_message_is_dropped_whatever_the_ids_of_the_others_are(world: World) -> None:
    await world.db.execute(START, "a", "{}")
    await world.db.execute(SIGNAL, "a", "add", "1")
    seq = await rejected(world, kind="message")
    for message_id in (f"dropped {seq}", str(seq)):
        assert await world.db.fetchval(WITH_ID, "a", "add", "2", message_id) == "sent"
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"'perdure-dropped {seq}' can not be a message id"):
        await world.db.execute(WITH_ID, "a", "add", "2", f"perdure-dropped {seq}")
    end = await perdure(world, "drop", str(seq), "--by", "ann")
    assert (end.exit_code, end.stdout) == (0, f"{seq}: message dropped\n")


async def test_attention_goes_with_the_last_that_was_rejected(world: World) -> None:
    start = await rejected(world)
    await world.db.execute(SIGNAL, "a", "add", "1")
    message = await rejected(world, kind="message")
    await world.db.execute(RETRY, start)
    assert (await world.client.status("listener", "a")).attention == "a message was rejected: it does not fit"
    await world.db.execute(RETRY, message)
    assert (await world.client.status("listener", "a")).attention is None


async def test_attention_for_what_was_rejected_outlives_the_writes_of_its_run(world: World) -> None:
    await world.db.execute(START, "a", "{}")
    await world.db.execute(SIGNAL, "a", "add", "1")
    seq = await rejected(world, kind="message")

    async def attention_after(version: int, move: Move) -> str | None:
        write = a_write("a", version, move, lifecycle="listener").model_dump_json(exclude_none=True)
        await world.db.execute("select perdure.apply_writes($1::jsonb)", f"[{write}]")
        return (await world.client.status("listener", "a")).attention

    assert await attention_after(1, Move(state="open")) == "a message was rejected: it does not fit"
    assert await attention_after(2, Move(state="open", attention="in doubt")) == "in doubt"
    assert await attention_after(3, Move(state="open")) == "a message was rejected: it does not fit"
    await world.db.execute(DROP, seq)
    assert await attention_after(4, Move(state="open", attention="in doubt")) == "in doubt"
    assert await attention_after(5, Move(state="open")) is None


async def test_a_doubt_stays_shown_while_a_message_is_rejected_and_after_it_is_dropped(world: World) -> None:
    """Nobody could have seen that the entity is parked, until its run wrote again."""
    shown = "select attention from perdure.entity"
    await world.db.execute(START, "a", "{}")
    async with world.worker(app):
        await world.is_in("listener", "a", "open")
        await world.db.execute("update perdure.entity set attention = 'the charge is in doubt: no answer'")
        await world.db.execute(SIGNAL, "a", "add", '"two"')
        seq = await world.until(lambda: world.db.fetchval("select seq from perdure.rejected"), "rejected")
        assert await world.db.fetchval(shown) == "the charge is in doubt: no answer"
        await world.db.execute(DROP, seq)
        assert await world.db.fetchval(shown) == "the charge is in doubt: no answer"


async def test_the_record_of_what_may_have_happened_is_not_dropped(world: World) -> None:
    seq = await rejected(world)
    await world.db.execute(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline) values ('k', 'listener', 'a', 0, 'do', 't', 'in_doubt', '', now(), now(), now())"
    )
    before = await counts(world)
    end = await perdure(world, "drop", str(seq), "--by", "ann")
    assert (end.exit_code, await counts(world)) == (1, before)
    assert "'k' is on record as in_doubt: Dropped and started again it could happen twice" in end.stderr


async def test_a_rejected_start_of_a_running_entity_is_not_dropped(world: World) -> None:
    seq = await rejected(world)
    await world.db.execute("update perdure.entity set workflow_id = 'listener/a'")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="listener/a runs"):
        await world.db.execute(DROP, seq)


async def test_a_late_message_is_not_delivered_again_and_can_be_dropped(world: World) -> None:
    seq = await rejected(world)
    await world.db.execute("update perdure.ident set final = 'closed'; delete from perdure.entity")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="has ended"):
        await world.db.execute(RETRY, seq)
    assert await world.db.fetchval(DROP, seq) == "start"
    assert await world.db.fetchval("select final from perdure.ident") == "closed"


async def test_a_drop_waits_for_the_relay_that_delivers_the_entity_now(world: World) -> None:
    seq = await rejected(world)
    await world.db.execute(SIGNAL, "a", "add", "1")
    dropping = asyncpg.connect(world.dsn)
    async with world.db.transaction():
        await world.db.execute("select pg_advisory_xact_lock(hashtextextended('listener/a', x'70657264'::bigint))")
        second = await dropping
        drop = asyncio.create_task(second.fetchval(DROP, seq))
        waits = "select exists (select from pg_locks where not granted and locktype = 'advisory')"
        await world.until(lambda: world.db.fetchval(waits), "the drop waits")
    assert await drop == "start"
    await second.close()


async def test_of_several_each_is_done_for_itself(world: World) -> None:
    first, second = await rejected(world, "a"), await rejected(world, "b")
    end = await perdure(world, "retry", str(first), "999", str(second), "--by", "ann")
    assert (end.exit_code, end.stdout) == (1, f"{first}: start delivered again\n{second}: start delivered again\n")
    assert end.stderr.startswith("perdure: 999: perdure.retry_rejected: nothing that was rejected has the number 999")
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 2


async def test_all_of_a_reason_are_delivered_again_and_the_others_stay(world: World) -> None:
    seqs = [await rejected(world, each) for each in "abcd"]
    await world.db.execute("update perdure.rejected set reason = 'no worker has it' where id in ('a', 'b', 'c')")
    await world.db.execute("update perdure.ident set final = 'closed' where id = 'b'")
    chosen = ("retry", "--lifecycle", "listener", "--reason", "no worker", "--by", "ann", "--note", "deployed")
    before = await counts(world)
    shown = await perdure(world, *chosen, "--dry-run")
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [
        [str(seq), f"listener/{each}"] for seq, each in zip(seqs, "abc", strict=False)
    ]
    asked = await perdure(world, *chosen)
    assert (asked.exit_code, await counts(world)) == (2, before)
    assert asked.stderr.startswith(
        "perdure: retry 3 that were rejected? There is no terminal for an answer: give --yes"
    )
    end = await perdure(world, *chosen, "--yes")
    assert (end.exit_code, end.stdout) == (1, "2 delivered again, 1 refused\n")
    assert end.stderr.startswith(f"perdure: {seqs[1]}: perdure.retry_rejected: listener/b")
    assert [row["id"] for row in await world.db.fetch("select id from perdure.rejected order by id")] == ["b", "d"]
    assert await record(world) == ("starting", f"rejected start {seqs[2]}, delivered again: deployed", "ann", None)


async def test_all_of_a_lifecycle_are_dropped_and_what_matches_nothing_says_so(world: World) -> None:
    for each in "abc":
        await rejected(world, each)
    end = await perdure(world, "drop", "--lifecycle", "listener", "--limit", "2", "--by", "ann", "--yes")
    assert (end.exit_code, end.stdout) == (0, "2 dropped\n")
    assert [row["id"] for row in await world.db.fetch("select id from perdure.rejected")] == ["c"]
    end = await perdure(world, "retry", "--lifecycle", "listener", "--reason", "another", "--by", "ann", "--yes")
    assert (end.exit_code, end.stderr) == (1, "perdure: nothing that was rejected matches\n")
    end = await perdure(world, "retry", "--lifecycle", "listner", "--by", "ann", "--yes")
    assert "no lifecycle is named 'listner'; did you mean 'listener'?" in str(end.exception)


async def test_a_start_that_is_dropped_after_its_messages_is_no_refusal(world: World) -> None:
    start = await rejected(world)
    await world.db.execute(SIGNAL, "a", "add", "1")
    await rejected(world, kind="message")
    await world.db.execute(RETRY, start)
    again = await world.db.fetchval(REJECT, "a", "start")  # now it has a later number than one of the messages
    await world.db.execute(SIGNAL, "a", "add", "2")
    assert await rejected(world, kind="message") > again
    end = await perdure(world, "drop", "--lifecycle", "listener", "--by", "ann", "--yes")
    assert (end.exit_code, end.stdout, end.stderr) == (0, "3 dropped\n", "")
    assert await counts(world) == dict.fromkeys(TABLES, 0)


async def test_numbers_are_dropped_with_the_start_last_whatever_their_order(world: World) -> None:
    start = await rejected(world)
    await world.db.execute(SIGNAL, "a", "add", "1")
    message = await rejected(world, kind="message")
    end = await perdure(world, "drop", str(start), str(message), "--by", "ann")
    assert (end.exit_code, end.stdout, end.stderr) == (
        0,
        f"{message}: message dropped\n{start}: start dropped\n",
        "",
    )
    assert await counts(world) == dict.fromkeys(TABLES, 0)


async def test_the_list_has_what_a_person_and_a_script_need(world: World) -> None:
    assert (await perdure(world, "list")).stdout == "nothing was rejected\n"
    seq = await rejected(world, "[bold]a")
    shown = (await perdure(world, "list")).stdout
    assert all(part in shown for part in (str(seq), "listener/[bold]a", "start", "it does not fit"))
    found = json.loads((await perdure(world, "list", "--json", "--lifecycle", "listener")).stdout)
    assert (found["seq"], found["id"], found["reason"]) == (seq, "[bold]a", "it does not fit")
    assert (await perdure(world, "list", "--json", "--lifecycle", "other")).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["retry", "1", "--by", "x" * 201], None),
        (["retry", "one", "--by", "ann"], None),
        (["retry", "1", "2", "--by", "ann", "--input", "-"], "{}"),
        (["retry", "1", "--by", "ann", "--input", "-"], "{"),
        (["retry", "--by", "ann"], None),
        (["retry", "1", "--reason", "x", "--by", "ann"], None),
        (["drop", "1", "--lifecycle", "listener", "--by", "ann"], None),
        (["retry", "--lifecycle", "listener", "--by", "ann", "--input", "-", "--yes"], "{}"),
    ],
    ids=[
        *("nobody has such a name", "no number", "one input for two", "no JSON", "none is named"),
        *("number and reason", "number and lifecycle", "one input for many"),
    ],
)
async def test_wrong_usage_changes_nothing(world: World, arguments: list[str], given: str | None) -> None:
    seq = await rejected(world)
    assert (await perdure(world, *arguments, given=given)).exit_code == 2
    assert await world.db.fetchval("select seq from perdure.rejected") == seq


@pytest.mark.parametrize(
    "call",
    ["retry_rejected($1, '')", "retry_rejected($1, 'ann', repeat('x', 2001))", "drop_rejected($1, null)"],
)
async def test_an_act_on_rejected_rows_requires_a_name(world: World, call: str) -> None:
    seq = await rejected(world)
    with pytest.raises(asyncpg.InvalidParameterValueError) as refusal:
        await world.db.execute(f"select perdure.{call}", seq)
    assert "Give who requests it" in str(refusal.value.hint)


async def test_one_that_another_transaction_holds_has_no_answer_and_harms_none_of_the_others(world: World) -> None:
    held, free = await rejected(world, "a"), await rejected(world, "b")
    async with world.db.transaction():
        await world.db.execute("select from perdure.ident where id = 'a' for update")
        end = await perdure(world, "retry", str(held), str(free), "--by", "ann")
    assert (end.exit_code, end.stdout) == (1, f"{free}: start delivered again\n")
    why = f"rejected {held}: another transaction holds it: try again later [PERDURE-3101]"
    assert end.stderr == f"perdure: {held}: {why}\n"
    end = await perdure(world, "retry", str(held), "--by", "ann")
    assert (end.exit_code, end.stdout) == (0, f"{held}: start delivered again\n")
