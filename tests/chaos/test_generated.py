"""Random lifecycles in a chaos run have every word of a program, and one that should have been started is missed."""

from __future__ import annotations

from typing import Any

from perdure.contracts.keys import Entity, Key
from perdure.testing.exploring.contracts import contracts, own_terms
from perdure.testing.exploring.programs import BRANCHES, INSIDE
from tests.chaos.audit import audit
from tests.chaos.facts import WAYS, Books, _facts, subjects
from tests.chaos.generated import PACE, lifecycle_of, policy_of, program, started_for_sure, starts, words
from tests.chaos.other_side import OtherSide
from tests.chaos.plan import GENERATED, STARTED, Plan, Start

SEED = 3
PERFORM = {"entering", "then", "expires", "again", "until", "own", "confirmed", "varies", "large"}
WORDS = {"perform", *BRANCHES, *INSIDE, "join", "until", "messages", "step", "enter", "save", "renew", "retry"}


def performances(entity_id: str) -> list[list[Any]]:
    given = program(SEED, entity_id)
    programs = [*given.steps, *given.at_cancel, *given.at_message, *given.at_update]
    return [each for each in words(programs) if each[0] == "perform"]


def entities() -> list[str]:
    planned = [str(number) for number in range(300)]
    started = [each for one in planned for each in starts(program(SEED, one).steps, one)]
    return planned + started + [each for one in started for each in starts(program(SEED, one).steps, one)]


def test_their_programs_have_every_word() -> None:
    found = {each[0] for one in entities() for each in words(program(SEED, one).steps)}
    assert found == WORDS | {"rounds", "start", "tell", "advanced"}
    assert {word for one in entities() for each in performances(one) for word in each[3]} == PERFORM
    assert any(program(SEED, one).at_message for one in entities())


def test_each_starts_entities_of_the_other_lifecycle() -> None:
    started = [each for one in entities() for each in words(program(SEED, one).steps) if each[0] == "start"]
    assert {each[1] for each in started} == {GENERATED, STARTED}
    assert {one.count("-of-") for one in entities()} == {0, 1, 2}
    for one in entities():
        for each in words(program(SEED, one).steps):
            assert each[0] != "start" or each[1] == lifecycle_of(f"{each[2]}-of-{one}") != lifecycle_of(one)


def test_a_performance_has_its_own_policy_in_each_round_and_at_each_message() -> None:
    with_own = 0
    for one in entities():
        for _, name, suffix, more in performances(one):
            effect = contracts(0, PACE)[name]
            own = own_terms(effect, more["own"], PACE) if "own" in more else {}
            with_own += "doubt" in own
            for now in (suffix, f"{suffix}.1", f"{suffix}-message 1 confirms repeat/p1"):
                key = Key.of(Entity(lifecycle_of(one), one), name, now, again=1)
                assert policy_of(SEED, key) == own.get("doubt", effect.doubt)
    assert with_own > 10


def test_one_that_has_ended_and_whose_start_of_another_is_lost_is_a_finding() -> None:
    starter = next(each for each in entities() if started_for_sure(SEED, each))
    books = Books()
    books.tables = {table: {} for table in ("finished", "transition", "effect", "entity")}
    books.tables["ident"] = {(lifecycle_of(starter), starter): [{"final": "ended"}]}
    *_, lost = subjects(Plan(SEED, 1.0, (Start(0.0, GENERATED, starter),), ()), books)
    assert lost.id in started_for_sure(SEED, starter)
    facts = _facts(lost, None, books, {}, OtherSide(SEED), {})
    assert [(each.kind, each.who) for each in audit([facts], WAYS, {}).findings] == [("lost", f"{STARTED}/{lost.id}")]
