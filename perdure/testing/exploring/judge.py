"""The judge: what the author was told, what is on record, and what the other side counted must be one story.

No word of the code under test counts here, but for what it told the author (`perform`'s answer) and the operator
(attention).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Abandoned, DifferentInput, Done, GaveUp, Status
from perdure.contracts.policies import Dedupe, DoubtPolicy, Lookup, Repeat
from perdure.store.writes import EffectView
from perdure.testing.exploring.scenario import Finding

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World


def judge(world: World, entity: Entity, *, messages: bool = True) -> Iterator[Finding]:
    """What is wrong once an entity is over; `messages` = they are judged too, as one application has sent them."""
    for key, ends in world.told.items():
        yield from _told(world, key, ends)
    for key, view in world.database.store.effects().items():
        yield from _on_record(world, key, view)
    yield from _moves(world, entity)
    if messages:
        yield from _messages(world, entity)
    if world.subject.secret is not None:
        yield from _words(world, entity, world.subject.secret)


def may_repeat(policy: DoubtPolicy[Any, Any]) -> bool:
    """Whether a policy allows the other side to do it twice."""
    match policy:
        case Repeat():
            return True
        case Dedupe(otherwise=otherwise) | Lookup(otherwise=otherwise):
            return isinstance(otherwise, Repeat)
        case _:
            return False


def _told(world: World, key: str, ends: list[Any]) -> Iterator[Finding]:
    account, last = world.other_side.accounts[key], ends[-1]
    done = bool(account.done_at)
    # Once its record is lost, that it is in doubt is all that anybody can tell a run that starts from its top.
    honest = world.records_lost and (isinstance(last, Abandoned) or getattr(last, "in_doubt", False))
    if any(isinstance(each, Done) for each in ends) and not isinstance(last, Done) and not honest:
        yield Finding("done became something else", f"{key}: {_kinds(ends)}")
    if isinstance(last, Done) and not done and key not in world.settled_by_person:
        yield Finding("told done, and was not", key)
    if isinstance(last, Done | Abandoned | DifferentInput):
        return
    if not last.in_doubt and any(began <= world.told_at[key] for began in account.done_by_calls_of):
        yield Finding("told not done, and was", f"{key}: {last}")
    if isinstance(last, GaveUp) and not account.calls:
        yield Finding("gave up without a call", f"{key}: {last}")


def _on_record(world: World, key: str, view: EffectView) -> Iterator[Finding]:
    done, told = bool(world.other_side.accounts[key].done_at), world.told.get(key, [])
    if view.status is Status.DONE and not done and key not in world.settled_by_person:
        yield Finding("on record as done, and was not", key)
    known = world.records_lost and Done in map(type, told)  # it stays on record as in doubt, for an operator to settle
    if view.in_doubt and not known and not any(getattr(each, "in_doubt", False) for each in told):
        yield Finding("doubt forgotten", f"{key}: {view.status}, told: {_kinds(told)}")
    honest = any(getattr(each, "in_doubt", False) or isinstance(each, Abandoned | Done) for each in told)
    if view.status in (Status.NOT_DONE, Status.REFUSED) and done and not honest:
        yield Finding("on record as not done, and was", f"{key}: {view.status}, told: {_kinds(told)}")


def _moves(world: World, entity: Entity) -> Iterator[Finding]:
    moves = world.database.moves(entity)
    states = world.app_with(entity.lifecycle).lifecycle(entity.lifecycle).declared
    if sum(move.final for move in moves) > 1:
        yield Finding("final twice", f"{entity}: {[move.state for move in moves]}")
    shown = set[str]()
    for before, after in pairwise(move.state for move in moves):
        # A workflow task that was lost and is made again shows once more what it showed before.
        shown.add(before)
        if before in states.names and after not in shown and not states.allows(before, after):
            yield Finding("a state follows that may not", f"{entity}: {before}, then {after}")


def _messages(world: World, entity: Entity) -> Iterator[Finding]:
    kept = world.database.store.snapshot(entity.lifecycle, entity.id)
    if isinstance(kept, dict) and "heard" in kept and world.subject.secret is not None:
        sent = [payload for _, payload in world.database.rows[entity.id].messages]
        if kept["heard"] != sent[: len(kept["heard"])]:
            yield Finding("messages lost, twice or out of order", f"{entity}: {kept['heard']} of {sent}")


def _words(world: World, entity: Entity, secret: str) -> Iterator[Finding]:
    texts = [text for move in world.database.moves(entity) for text in (move.why, move.attention, move.by)]
    texts += [view.why for view in world.database.store.effects().values()]
    for text in texts:
        if text and secret in text:
            yield Finding("personal data on record", text)
            return


def _kinds(ends: list[Any]) -> str:
    return ", ".join(type(each).__name__ + (" in doubt" if getattr(each, "in_doubt", False) else "") for each in ends)
