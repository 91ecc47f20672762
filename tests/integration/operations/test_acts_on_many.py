"""An act on all entities of a filter is confirmed, interrupted and resumed, and affects each of them once."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from perdure._operations.session import session
from perdure.cli.acting import _choices as chosen
from perdure.cli.targets import OpenTargets
from perdure.errors import AlreadyFinished, NotNow
from perdure.settings import settings
from tests.apps.talking import app
from tests.command import perdure
from tests.integration.operations.acts import LOST, delivered, parked, record, untouched
from tests.terminal import at_terminal
from tests.world import World

pytestmark = pytest.mark.world(app)

MANY = 40
BY_ANN = ("--by", "ann")
CHOSEN = ("--lifecycle", "ring-inline", *BY_ANN, "--note", "silent")
RESOLVED = (
    "select id from perdure.transition where why = 'do-ring-inline resolved as abandoned: silent' and made_by = 'ann'"
)

IN_DOUBT = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    values ('k', 'rest', '3', 0, 'do', 't', 'in_doubt', '', now(), now(), now())
"""


async def test_of_many_whose_resolving_is_interrupted_each_is_resolved_once(world: World) -> None:
    world.counterparty.replies = [dict(LOST) for _ in range(MANY)]
    await world.db.execute(f"select perdure.start('ring-inline', n::text, '{{}}') from generate_series(1, {MANY}) n")
    await world.spawn("tests.apps.talking:app")
    await parked(world, MANY)
    resolving = ("resolve", *CHOSEN, "--as", "abandoned")
    async with at_terminal(world, *resolving) as command:
        await world.until(lambda: "[y/N]" in command.text, "the question")
        assert f"resolve {MANY} of ring-inline as abandoned?" in command.text
        command.type("y\n")
        await world.until(lambda: _resolved(world, 10), "some resolved", every=0.005)
        command.interrupt()
        assert await command.ended() == 130, command.text
    last = re.search(
        rf"interrupted after (\d+) of {MANY}: run it again, with --resume-after ring-inline/\d+", command.text
    )
    assert last is not None, command.text
    before = len(await world.db.fetch(RESOLVED))
    assert before == int(last[1]) < MANY, "those under way came to their end, and are told"
    end = await perdure(world, *resolving, "--yes", "--rate", "0")
    assert (end.exit_code, end.stdout) == (0, f"{MANY - before} resolved as abandoned\n"), end.stderr
    times = Counter(row["id"] for row in await world.db.fetch(RESOLVED))
    assert times == {str(number): 1 for number in range(1, MANY + 1)}


async def _resolved(world: World, count: int) -> bool:
    return len(await world.db.fetch(RESOLVED)) >= count


async def test_the_finished_ones_that_are_chosen_run_again_and_one_that_is_refused_harms_none(world: World) -> None:
    await world.db.execute("select perdure.start('rest', n::text, '{}') from generate_series(1, 5) n")
    async with world.worker(app):
        await world.until(lambda: world.db.fetchval("select count(*) = 5 from perdure.finished"), "all finished")
        await delivered(world)
        await world.db.execute(IN_DOUBT)
        chosen = ("restart", "--lifecycle", "rest", "--state", "done", "--since", "1h", *BY_ANN, "--note", "again")
        before = await untouched(world)
        assert (await perdure(world, *chosen, "--before", "1h", "--yes")).stderr == "perdure: nothing matches\n"
        end = await perdure(world, *chosen, "--dry-run", "--resume-after", "rest/1", "--limit", "3")
        assert (end.exit_code, [line.split()[:2] for line in end.stdout.splitlines()]) == (
            0,
            [["rest/2", "done"], ["rest/3", "done"], ["rest/4", "done"]],
        )
        assert await untouched(world) == before
        end = await perdure(world, *chosen, "--yes", "--resume-after", "rest/1", "--rate", "0")
        assert (end.exit_code, end.stdout) == (1, "3 restarted, 1 refused\n")
        assert end.stderr == (
            "perdure: perdure.restart: whether 'k' happened is not known: Resolve that effect first, else it could "
            "happen twice.\n"
        )
        again = "select count(*) = 3 from perdure.finished where generation = 1"
        await world.until(lambda: world.db.fetchval(again), "three ran again")
    shown = (await perdure(world, "restart", "--lifecycle", "rest", "--dry-run")).stdout.splitlines()
    assert [line.split()[0] for line in shown] == [f"rest/{n}" for n in range(1, 6)], "each in its last generation"
    generations = await world.db.fetch(
        "select id, made_by, why from perdure.transition where generation = 1 and state = 'starting'"
    )
    assert sorted(map(tuple, generations)) == [(each, "ann", "again") for each in "245"]


async def test_a_filter_acts_on_those_that_match_and_leaves_the_others(world: World) -> None:
    busy, refused = [{"not_done": "busy"}], [{"refused": "no such bell"}]
    world.counterparty.replies_to = {"1": list(busy), "2": list(refused), "3": list(busy)}
    await world.db.execute("select perdure.start('slow', n::text, '{}') from generate_series(1, 3) n")
    async with world.worker(app):
        await world.is_in("slow", "2", "failed")
        await world.until(lambda: _back_off(world, "1", "3"), "two back off")
        chosen = ("retry", "--lifecycle", "slow", "--state", "doing", *BY_ANN)
        listed = (await perdure(world, *chosen, "--dry-run")).stdout.splitlines()
        assert [line.split()[:2] for line in listed] == [["slow/1", "doing"], ["slow/3", "doing"]]
        end = await perdure(world, *chosen, "--yes")
        assert (end.exit_code, end.stdout, end.stderr) == (0, "2 go on\n", "")
        assert [await world.ended("slow", each) for each in "13"] == ["done", "done"]
    assert await record(world, "slow", "2") == []


async def _back_off(world: World, *ids: str) -> bool:
    asked = [await world.asked("slow", each) for each in ids]
    return all(any(effect.next_at and effect.attempts for effect in each.effects) for each in asked)


async def test_a_bulk_retry_sends_nothing_again_that_was_refused(world: World) -> None:
    world.counterparty.replies_to = {"refused": [{"refused": "no such bell"}], "busy": [{"not_done": "busy"}]}
    for lifecycle, entity_id in (("slow", "refused"), ("slow", "busy"), ("rest", "ended")):
        await world.db.execute("select perdure.start($1, $2, $3)", lifecycle, entity_id, '{"seconds": 3600}')
    async with world.worker(app):
        await world.is_in("slow", "refused", "failed")
        await world.until(lambda: _back_off(world, "busy"), "one backs off")
        await world.is_in("rest", "ended", "doing")
        await world.handle("rest", "ended").terminate()
        await world.db.execute("update perdure.entity set attention = 'somebody should look' where id <> 'refused'")
        end = await perdure(world, "retry", "--attention", *BY_ANN, "--yes")
        assert (end.exit_code, end.stdout) == (1, "2 go on, 1 refused\n")
        assert end.stderr == (
            "perdure: slow/refused: do-slow was refused, and this retry is not to send it again: "
            "use send_again, or retry it by name\n"
        )
        assert await world.ended("slow", "busy") == "done"
        assert world.counterparty.seen("do", "slow/refused") == 1
        end = await perdure(world, "send-again", "--attention", *BY_ANN, "--note", "they have it now", "--yes")
        assert end.stdout.startswith("1 go anew")
        assert await world.ended("slow", "refused") == "done"
    [(_, *noted)] = await record(world, "slow", "refused")  # in the state that it has reached by then
    assert noted == ["ann", "send-again: they have it now"]


async def test_those_of_a_finding_are_chosen(world: World) -> None:
    await world.db.execute("select perdure.start('rest', n::text, '{}') from generate_series(1, 4) n")
    await world.db.execute(
        "insert into perdure.finding (kind, lifecycle, id, about, what, mended, run) values "
        "('ended', 'rest', '1', '', 'x', false, 1), ('ended', 'rest', '2', '', 'x', true, 1), "
        "('stuck', 'rest', '3', '', 'x', false, 1), ('ended', 'rest', '3', '', 'x', false, 1)"
    )
    end = await perdure(world, "cancel", "--finding", "ended", *BY_ANN, "--dry-run")
    assert [line.split()[0] for line in end.stdout.splitlines()] == ["rest/1", "rest/3"]
    end = await perdure(world, "cancel", "--finding", "endde", *BY_ANN, "--dry-run")
    assert (end.exit_code, end.stderr) == (
        2,
        "perdure: no finding is named 'endde'; did you mean 'ended'? [PERDURE-4101]\n",
    )
    assert (await perdure(world, "list", "--finding", "stuck")).stdout.splitlines()[1].startswith("rest/3 ")


async def test_all_in_doubt_are_resolved_as_done_with_one_receipt(world: World) -> None:
    world.counterparty.replies = [dict(LOST) for _ in range(3)]
    await world.db.execute("select perdure.start('ring', n::text, '{}') from generate_series(1, 3) n")
    async with world.worker(app):
        await parked(world, 3)
        chosen = ("resolve", "--lifecycle", "ring", "--as", "done", *BY_ANN, "--note", "all rang", "--yes")
        end = await perdure(world, *chosen)
        assert (end.exit_code, end.stdout) == (1, "0 resolved as done, 3 refused\n")
        assert "ring/1: the receipt does not fit what do-ring declares" in end.stderr
        end = await perdure(world, *chosen, "--receipt", "-", given='{"number": 7}')
        assert (end.exit_code, end.stdout, end.stderr) == (0, "3 resolved as done\n", "")
        assert [await world.ended("ring", each) for each in "123"] == ["done"] * 3
    assert [row[0] for row in await world.db.fetch("select receipt->>'number' from perdure.effect")] == ["7"] * 3


async def test_what_ran_again_since_the_question_does_not_run_once_more(world: World) -> None:
    await world.db.execute("select perdure.start('rest', n::text, '{}') from generate_series(1, 2) n")
    await world.spawn("tests.apps.talking:app")
    await world.until(lambda: world.db.fetchval("select count(*) = 2 from perdure.finished"), "both finished")
    async with at_terminal(world, "restart", "--lifecycle", "rest", *BY_ANN, "--note", "again") as command:
        await world.until(lambda: "restart 2 of rest?" in command.text, "the question")
        meanwhile = await perdure(world, "restart", "rest", "2", "--by", "bob", "--note", "a friend asked")
        assert meanwhile.exit_code == 0, meanwhile.stderr
        again = "select count(*) = 1 from perdure.finished where id = '2' and generation = 1"
        await world.until(lambda: world.db.fetchval(again), "it has ended again")
        command.type("y\n")
        assert await command.ended() == 1, command.text
    assert "1 restarted" in command.text
    assert "1 of 2 matched no longer when it was their turn" in command.text
    generations = await world.db.fetch("select id, generation from perdure.ident order by id")
    assert [tuple(row) for row in generations] == [("1", 1), ("2", 1)]


async def test_nobody_answers_for_an_attempt_that_began_after_the_question(world: World) -> None:
    world.counterparty.replies = [dict(LOST), dict(LOST)]
    await world.db.execute("select perdure.start('ring', '1', '{}')")
    await world.spawn("tests.apps.talking:app")
    await parked(world)
    resolving = ("--as", "not_done", "--note", "not in their log")
    async with at_terminal(world, "resolve", "--lifecycle", "ring", *BY_ANN, *resolving) as command:
        await world.until(lambda: "resolve 1 of ring as not_done?" in command.text, "the question")
        meanwhile = await perdure(world, "resolve", "ring", "1", "--by", "bob", *resolving)
        assert meanwhile.exit_code == 0, meanwhile.stderr
        again = "select attempts = 2 and status = 'in_doubt' from perdure.effect"
        await world.until(lambda: world.db.fetchval(again), "the next attempt is in doubt")
        await parked(world)
        command.type("y\n")
        assert await command.ended() == 1, command.text
    assert "ring/1: an attempt has begun since the command counted: run it again" in command.text
    assert await world.db.fetchval(again), "it waits for an answer about itself"


async def test_of_two_effects_in_doubt_the_one_that_waits_for_a_person_is_resolved(world: World) -> None:
    world.counterparty.replies = [dict(LOST)]
    await world.db.execute("select perdure.start('ring', '1', '{}')")
    await world.spawn("tests.apps.talking:app")
    await parked(world)
    await world.db.execute("""
        insert into perdure.effect
            (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        select key || '/more', lifecycle, id, generation, effect || '/more', token || '2', status, digest, first_at,
            attempt_at, deadline from perdure.effect
    """)
    resolving = ("resolve", "--lifecycle", "ring", "--as", "abandoned", *BY_ANN, "--note", "silent", "--yes")
    end = await perdure(world, *resolving)
    assert (end.exit_code, end.stdout) == (0, "1 resolved as abandoned\n"), end.stderr


@pytest.mark.parametrize(
    ("state", "refused"),
    [("doing", "was doing when it was chosen, and is done now"), (None, "too late: already done")],
    ids=["the state is chosen", "any state"],
)
async def test_an_entity_that_is_in_another_state_than_chosen_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str | None, refused: str
) -> None:
    targets = OpenTargets(lifecycle="ring", state=state, by="ann")
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    world.counterparty.replies = [dict(LOST)]
    await world.db.execute("select perdure.start('ring', '1', '{}')")
    async with world.worker(app), session(settings(), app, targets.asked, 20) as opened:
        await parked(world)
        until = await world.db.fetchval("select clock_timestamp()")
        [choice] = [each async for each in chosen(targets, opened, None, until)]
        by_bob = ("--by", "bob", "--note", "it rang")
        end = await perdure(
            world, "resolve", "ring", "1", "--as", "done", *by_bob, "--receipt", "-", given='{"number": 7}'
        )
        assert end.exit_code == 0, end.stderr
        assert await world.ended("ring", "1") == "done"
        acts = replace(await opened.acts(asks_temporal=False), seen=choice.seen)
        with pytest.raises((NotNow, AlreadyFinished), match=refused):
            await acts.cancel(choice.name.entity)


async def test_who_has_changed_state_since_is_left_out_by_a_filter_that_regards_the_state(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    everything, failed = OpenTargets(lifecycle="ring", by="ann"), OpenTargets(state="failed", by="ann")
    world.counterparty.replies = [dict(LOST), {"refused": "no such bell"}]
    await world.db.execute("select perdure.start('ring', '1', '{}')")
    async with world.worker(app), session(settings(), app, everything.asked, 20) as opened:
        await parked(world)
        until = await world.db.fetchval("select clock_timestamp()")
        end = await perdure(world, "resolve", "ring", "1", "--as", "not_done", "--by", "bob", "--note", "never rang")
        assert end.exit_code == 0, end.stderr
        await world.is_in("ring", "1", "failed")
        assert [each.name.id async for each in chosen(everything, opened, None, until)] == ["1"]
        assert [each async for each in chosen(failed, opened, None, until)] == []
        now = await world.db.fetchval("select clock_timestamp()")
        assert [each.name.id async for each in chosen(failed, opened, None, now)] == ["1"]
        await world.db.execute("update perdure.entity set since = since + interval '1 hour'")  # the clock went back
        assert [each.name.id async for each in chosen(failed, opened, None, now)] == ["1"]
