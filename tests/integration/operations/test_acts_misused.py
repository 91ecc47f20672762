"""An act that can't be done prints one line, has an exit status, and changes nothing."""

from __future__ import annotations

import asyncpg
import pytest
from typer.testing import Result

from tests.apps.contracts import Booking
from tests.apps.talking import Plod, Rest, Ring, app
from tests.command import perdure
from tests.integration.crypto.fixtures import FIRST, SECOND, keys
from tests.integration.operations.acts import LOST, delivered, parked, untouched
from tests.world import World

pytestmark = pytest.mark.world(app)

NOTE = ("--by", "ann", "--note", "x")
KNOWN = "--app tests.apps.talking:app"
USAGE = {
    "resolve --as not_done": "give LIFECYCLE and ID, or a filter",
    "resolve ring --as not_done": "the ID is missing: give ring and an ID",
    "resolve ring a --state doing --as not_done": "or a filter, not both: --state",
    "retry ring a --yes": "not both: --yes",
    "resolve ring a --as refused": "'refused' is not one of",
    "resolve ring a": "Missing option '--as'",
    "resolve ring a --note= --as not_done": "give the reason, for the record",
    "resolve ring a --as not_done --receipt -": "--receipt goes with --as done",
    "resolve --lifecycle ring --as done --receipt - --yes": "is no JSON",
    "resolve ring a --as done --receipt /nowhere": "No such file",
    "resolve --lifecycle ring --as not_done --attempt 1 --yes": "--attempt is of one entity: give LIFECYCLE and ID",
    "resolve ring a --as not_done --attempt 0": "Input should be greater than or equal to 1",
    "resolve ring a --as not_done --attempt last": "unable to parse string as an integer",
    "restart ring a --input -": "is no JSON",
    "restart --lifecycle ring --input -": "--input is of one entity",
    "restart --since yesterday": "'yesterday' is no time: write 2026-07-01",
    "cancel --lifecycle ring": "There is no terminal for an answer: give --yes",
    "cancel --lifecycle rign --yes": "did you mean 'ring'",
    "cancel --state doign --yes": "did you mean 'doing'",
    "cancel --older-than soon --yes": "'soon' is no duration",
    f"retry rign a {KNOWN}": "no lifecycle is named 'rign'; did you mean 'ring'?",
    f"cancel ring a --by {'x' * 201}": "--by or --note can't be used",
    "cancel ring \t": "the entity id '\\t' has characters that can't be seen",
}
BEHIND = """
    update perdure.ident set final = null where id = 'behind';
    insert into perdure.entity (lifecycle, id, generation, state) values ('rest', 'behind', 0, 'doing');
"""
LEFT_IN_DOUBT = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select 'rest/left/' || effect, 'rest', 'left', 0, effect, 't', 'in_doubt', '', now(), now(), now()
    from unnest(array['do-ring', 'do-plod']) effect
"""
REFUSALS = {
    "resolve ring nobody --as not_done": "there is no ring/nobody: it was never started",
    "resolve ring doubt --as done --receipt -": "ring/doubt: the receipt does not fit what do-ring declares: number",
    "resolve ring doubt --as not_done --effect do-dance": "ring/doubt: effect='do-dance': name one of do-ring",
    "resolve ring doubt --as not_done --attempt 2": "ring/doubt: attempt 2 of do-ring was not made: attempt 1 is",
    "resolve rest left --as abandoned --effect do-ring --attempt 2": "rest/left: attempt 2 of do-ring was not made",
    "resolve plod a --as not_done": "plod/a: nothing is parked in doubt in state 'failed'",
    "resolve rest over --as not_done": "rest/over: too late: already done",
    "retry rest over": "rest/over: too late: already done",
    "retry ring doubt": "ring/doubt: do-ring is in doubt, so a retry could repeat it: use resolve",
    "send-again ring doubt": "ring/doubt: nothing waits to be sent again in state 'doing'",
    "cancel rest over": "rest/over: too late: already done",
    f"cancel plod a {KNOWN}": "plod/a: plod declares no state with cancelled=True to end in",
    "retry rest behind": "rest/behind: its workflow has ended, and the database does not show it",
    "resolve rest left --as not_done": "rest/left: effect=None: name one of do-plod, do-ring",
    f"resolve rest left --as done --receipt - --effect do-ring {KNOWN}": "rest/left: the receipt does not fit",
    "restart ring doubt": "perdure.restart: ring/doubt is still open: Only a finished entity",
    "restart ring nobody": "there is no ring/nobody",
    "retry --lifecycle ring --state starting --yes": "nothing matches",
}


async def test_a_user_without_a_name_is_asked_for_one_and_only_where_it_goes_on_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose user has no line in /etc/passwd."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.delenv("PERDURE_BY", raising=False)
    for command in ("reconcile --now", "cancel ring a"):
        end = await perdure(world, *command.split())
        assert (end.exit_code, end.stderr) == (
            2,
            "perdure: this system has no name for its user: say who does this with --by or PERDURE_BY\n",
        )
    assert (await perdure(world, "reconcile")).exit_code == 0


async def said(world: World, line: str, given: str) -> Result:
    verb, *arguments = line.split(" ")
    return await perdure(world, verb, *NOTE, *arguments, given=given)


async def test_wrong_usage_says_what_is_wrong_and_changes_nothing(world: World) -> None:
    await world.client.start(Ring, "a", Booking())
    await world.db.execute("update perdure.entity set state = 'doing'")
    before = await untouched(world)
    for line, why in USAGE.items():
        end = await said(world, line, "{")
        assert (end.exit_code, end.stdout) == (2, ""), line
        assert why in " ".join(end.stderr.replace("│", " ").split()), line
    end = await said(world, "restart ring a --input -", "null")
    assert (end.exit_code, "null, and would run it with the input of last time" in end.stderr) == (2, True), end.output
    assert await untouched(world) == before


async def test_an_act_that_cannot_work_is_refused_in_one_line_and_changes_nothing(world: World) -> None:
    world.counterparty.replies = [dict(LOST), {"refused": "no such bell"}]
    async with world.worker(app):
        for entity_id in ("over", "behind", "left"):
            await world.client.start(Rest, entity_id, Booking())
            assert await world.ended("rest", entity_id) == "done"
        await world.handle("rest", "behind").result()
        await world.db.execute(BEHIND + LEFT_IN_DOUBT)
        await world.client.start(Ring, "doubt", Booking())
        await parked(world)
        await world.client.start(Plod, "a", Booking())
        await world.is_in("plod", "a", "failed")
        await delivered(world)
        before = await untouched(world)
        for line, why in REFUSALS.items():
            end = await said(world, line, '{"number": "seven"}')
            assert (end.exit_code, end.stdout) == (1, ""), (line, end.stderr)
            assert end.stderr.startswith(f"perdure: {why}"), line
            assert end.stderr.count("\n") == 1, line
        assert await untouched(world) == before


async def test_an_engine_or_a_scope_that_is_not_the_databases_own_is_not_asked(world: World) -> None:
    async with world.worker(app):
        await world.client.start(Rest, "a", Booking(seconds=3600))
        await world.is_in("rest", "a", "doing")
        await delivered(world)
    before = await untouched(world)
    end = await perdure(world, "retry", "rest", "a", PERDURE_SCOPE="another")
    assert (end.exit_code, end.stderr.count("\n")) == (1, 1)
    assert f"this database works with PERDURE_SCOPE={world.scope!r}" in end.stderr
    end = await perdure(world, "retry", "rest", "a", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert (end.exit_code, end.stderr.count("\n")) == (1, 1)
    assert end.stderr.startswith("perdure: no Temporal server answers at 127.0.0.1:1")
    assert await untouched(world) == before


async def test_whoever_could_not_write_down_that_they_acted_does_not_act_before_they_may(world: World) -> None:
    await world.client.start(Rest, "a", Booking())
    await world.db.execute(f"create role {world.scope} login")
    try:
        await world.db.execute(
            f"grant usage on schema perdure to {world.scope}; grant execute on function "
            f"perdure.cancel, perdure.status, perdure.schema_version to {world.scope}"
        )
        before = await untouched(world)
        url = world.dsn.replace("postgres@", f"{world.scope}@")
        end = await perdure(world, "cancel", "rest", "a", PERDURE_DATABASE_URL=url)
        assert (end.exit_code, end.stderr) == (
            1,
            f"perdure: the role {world.scope!r} may not act: an owner of the schema runs "
            f"`perdure grant {world.scope} --as operator` [PERDURE-2105]\n",
        )
        assert await untouched(world) == before
        assert (await perdure(world, "grant", world.scope, "--as", "operator")).exit_code == 0
        end = await perdure(world, "cancel", "--lifecycle", "rest", "--yes", PERDURE_DATABASE_URL=url)
        assert (end.exit_code, end.stdout) == (0, "1 requested to end\n"), end.stderr
        await world.db.execute("delete from perdure.outbox")
        end = await perdure(world, "retry", "rest", "a", PERDURE_DATABASE_URL=url)
        assert (end.exit_code, end.stdout) == (0, "rest/a: its workflow is gone: started again from its record\n")
    finally:
        await world.db.execute(f"drop owned by {world.scope}; drop role {world.scope}")


@pytest.mark.parametrize("again", [False, True], ids=["asked for once", "asked for again"])
async def test_a_cancel_is_sent_and_noted_once_however_often_it_is_asked_for(world: World, again: bool) -> None:
    await world.client.start(Rest, "a", Booking())
    end = await perdure(world, "cancel", "rest", "a", *NOTE)
    if again:
        end = await perdure(world, "cancel", "rest", "a", *NOTE)
    said = "its end was requested before" if again else "its end is requested"
    assert (end.exit_code, end.stdout) == (0, f"rest/a: {said}\n")
    assert await world.db.fetchval("select count(*) from perdure.message where kind = 'cancel'") == 1
    assert await world.db.fetchval("select count(*) from perdure.transition where made_by = 'ann'") == 1


@pytest.mark.parametrize("kind", ["signal", "cancel"])
async def test_a_cancel_asked_for_again_is_called_rejected_only_if_it_was(world: World, kind: str) -> None:
    await world.client.start(Rest, "a", Booking())
    await world.db.execute("select perdure.signal('rest', 'a', 'tell')")
    await perdure(world, "cancel", "rest", "a", *NOTE)
    await world.db.execute(
        """
        with gone as (delete from perdure.outbox o using perdure.message m
            where m.message_id = o.message_id and m.kind = $1 returning o.*)
        insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id)
        select seq, lifecycle, id, generation, kind, body, 'a test', message_id from gone
        """,
        kind,
    )
    end = await perdure(world, "cancel", "rest", "a", *NOTE)
    if kind == "cancel":
        assert (end.exit_code, "requested before, and rejected (a test)" in end.stderr) == (1, True)
    else:
        assert (end.exit_code, end.stdout) == (0, "rest/a: its end was requested before\n")


async def test_no_message_of_an_application_is_taken_for_a_request_of_perdure(world: World) -> None:
    await world.db.execute("select perdure.start('rest', 'a', '{}')")
    for call in (
        "signal('rest', 'a', 'tell', message_id => 'perdure-cancel')",
        "cancel('rest', 'a', 'ann', message_id => 'perdure-dropped 7')",
    ):
        with pytest.raises(
            asyncpg.InvalidParameterValueError, match=r"'perdure-.+' can not be a message id"
        ) as refused:
            await world.db.execute(f"select perdure.{call}")
        assert refused.value.hint == "Ids that begin with perdure- are reserved: give another one."
    end = await perdure(world, "cancel", "rest", "a", *NOTE)
    assert (end.exit_code, end.stdout) == (0, "rest/a: its end is requested\n")


async def test_an_operator_who_lacks_the_key_of_a_run_sends_it_nothing(world: World) -> None:
    """As of somebody whose machine was left out when the key was changed."""
    world.counterparty.replies_to = {"a": [LOST], "b": [LOST]}
    why = "nothing was sent, since its run can't be read here: it is encrypted with the key 'second'"
    chosen = ("--as", "abandoned", *NOTE)
    async with world.worker(app, **keys(SECOND, FIRST)):
        for entity_id in "ab":
            await world.client.start(Ring, entity_id, Booking())
        await parked(world, 2)
        end = await perdure(world, "resolve", "ring", "a", *chosen, PERDURE_KEYS=FIRST)
        assert (end.exit_code, end.stderr.startswith(f"perdure: ring/a: {why}")) == (1, True), end.stderr
        assert end.stderr.endswith("add 'second' to PERDURE_KEYS [PERDURE-4203]\n")
        end = await perdure(world, "resolve", "--lifecycle", "ring", "--yes", *chosen, PERDURE_KEYS=FIRST)
        assert (end.exit_code, end.stdout) == (1, "0 resolved as abandoned, 2 refused\n"), end.stderr
        assert f"perdure: ring/b: {why}" in end.stderr
        assert await world.db.fetchval("select count(*) from perdure.effect where status = 'in_doubt'") == 2
