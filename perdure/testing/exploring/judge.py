"""The judge: the results of `perform`, the record, and the counts of the other side must agree.

Nothing that the code under test reports counts here, except the results of `perform` for the author and the attention
for the operator. It judges the virtual world of `explore` and the real servers of a chaos run alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from perdure._wire.writes import EffectView
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Abandoned, DifferentInput, Done, EffectStatus, GaveUp
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Repeat
from perdure.contracts.states import STARTING
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.evidence import Account, Evidence, PerformResult
from perdure.testing.exploring.scenario import Finding


def judge(evidence: Evidence) -> Iterator[Finding]:
    """The errors of an entity that has ended."""
    for key, account in evidence.accounts.items():
        yield from _twice(key, account)
    for key, results in evidence.results.items():
        yield from _results(evidence, key, results)
    for key, view in evidence.effects.items():
        yield from _on_record(evidence, key, view)
    for key in evidence.newer_than_end:
        yield Finding("ended over an effect", f"{key}: {evidence.effects[key].status}, ordered later than the end")
    yield from _moves(evidence)
    if evidence.received is not None:
        yield from _messages(evidence, evidence.received)
    for text in evidence.acknowledged:
        if evidence.updated.count(text) != 1:
            yield Finding("an update is not received once", f"{evidence.entity}: {text!r} of {evidence.updated}")
    if evidence.secret is not None:
        yield from _words(evidence, evidence.secret)


def judge_keys(results: Mapping[str, Sequence[PerformResult]], entity: Entity, since: float) -> Iterator[Finding]:
    """What is wrong with the keys under which one generation, which began at `since`, has performed: each has keys of
    its own, or what was done in an earlier generation would stand for what is to be done in this one."""
    for key, ends in results.items():
        if ends[-1].at > since and not belongs(key, entity):
            yield Finding("key of another round", f"{entity}: {key}")


def may_repeat(policy: DoubtPolicy[Any, Any]) -> bool:
    """Whether a policy allows the other side to do it twice."""
    match policy:
        case Repeat():
            return True
        case Dedupe(otherwise=otherwise) | AskFirst(otherwise=otherwise):
            return isinstance(otherwise, Repeat)
        case _:
            return False


def _twice(key: str, account: Account) -> Iterator[Finding]:
    first, *more = account.done_at or [0.0]
    if more and account.policy is not None and not may_repeat(account.policy):
        yield Finding("done twice", f"{key}: again after {more[0] - first:.1f} s")


def _results(evidence: Evidence, key: str, results: Sequence[PerformResult]) -> Iterator[Finding]:
    account, last = evidence.account(key), results[-1]
    done, end = bool(account.done_at), last.end
    # Once its record is lost, a run that starts from its top can learn no more than that it is in doubt.
    excused = evidence.records_lost and (isinstance(end, Abandoned) or last.in_doubt)
    if any(isinstance(each.end, Done) for each in results) and not isinstance(end, Done) and not excused:
        yield Finding("done became something else", f"{key}: {_kinds(results)}")
    if not _performed_again(evidence, key):
        # An end that is no doubt stays what it is, until the author's code performs the effect again.
        ends = [type(each.end) for each in results if not each.in_doubt]
        if not evidence.records_lost and len({*ends}) > 1 and ends[0] is not Done:
            yield Finding("not done became something else", f"{key}: {_kinds(results)}")
    if isinstance(end, Done) and not done and key not in evidence.settled_by_person:
        yield Finding("reported as done, and was not", key)
    if isinstance(end, Done | Abandoned):
        return
    if isinstance(end, DifferentInput):  # with the first input, it may have been done before
        later = [began for began in account.done_by_calls_of if began > results[0].at]
        if later and not last.in_doubt and not evidence.records_lost and not _performed_again(evidence, key):
            yield Finding("done after the author's code went on", f"{key}: {end}, and {later[0] - results[0].at:.1f} s")
        return
    if not last.in_doubt and any(began <= last.at for began in account.done_by_calls_of):
        yield Finding("reported as not done, and was", f"{key}: {end}")
    # An attempt whose worker was lost between its record and its call counts: it may have made one.
    view = evidence.effects.get(key)
    unknown = evidence.workers_lost and view is not None and view.attempts > 0
    if isinstance(end, GaveUp) and not account.calls and not unknown:
        yield Finding("gave up without a call", f"{key}: {end}")


def _performed_again(evidence: Evidence, key: str) -> bool:
    """Whether the author's code, or a person, may have had the effect attempted once more after it had ended."""
    again = evidence.performed_again
    return again is None or key in {*again, *evidence.settled_by_person}


def _on_record(evidence: Evidence, key: str, view: EffectView) -> Iterator[Finding]:
    done, results = bool(evidence.account(key).done_at), evidence.results.get(key, [])
    if view.status is EffectStatus.DONE and not done and key not in evidence.settled_by_person:
        yield Finding("on record as done, and was not", key)
    # Where the record of how it ended was lost, it stays on record as in doubt, for an operator to settle. The same if
    # the workflow task that performed it, or the history of its run, was lost as well, and a worker records the outcome
    # after the end.
    late = key not in evidence.on_record_at_end and (evidence.tasks_lost or evidence.histories_lost)
    lost = evidence.records_lost and (bool(results) or late)
    known = lost or key in evidence.told_in_doubt or any(each.in_doubt for each in results)
    if view.in_doubt and not known:
        yield Finding("doubt forgotten", f"{key}: {view.status}, results: {_kinds(results)}")
    excused = any(each.in_doubt or isinstance(each.end, Abandoned | Done) for each in results)
    # The record is from before the loss, and no run has performed the effect since: the entity took another way.
    excused = excused or (evidence.records_lost and not results)
    if view.status in (EffectStatus.NOT_DONE, EffectStatus.REFUSED) and done and not excused:
        yield Finding("on record as not done, and was", f"{key}: {view.status}, results: {_kinds(results)}")


def _moves(evidence: Evidence) -> Iterator[Finding]:
    moves, states = evidence.moves, evidence.states
    if sum(move.final for move in moves) > 1:
        yield Finding("final twice", f"{evidence.entity}: {[move.state for move in moves]}")
    shown = set[str]()
    if evidence.records_lost:
        return  # and some of the states with them
    first = states.initial.value
    for before, after in pairwise(first if move.state == STARTING else move.state for move in moves):
        # A workflow task that was lost and is made again shows once more what it showed before.
        shown.add(before)
        if before in states.names and after not in shown and not _follows(evidence, before, after, shown):
            yield Finding("a state follows that may not", f"{evidence.entity}: {before}, then {after}")


def _follows(evidence: Evidence, before: str, after: str, shown: Collection[str]) -> bool:
    """Whether the mirror may show `after` behind `before`, and behind all that it has `shown`."""
    states = evidence.states
    if any(states.allows(before, each) and states.allows(each, after) for each in evidence.skipped):
        return True
    # A lost task may have taken another way, and a frozen worker may have written between two states of the next one.
    other_way = evidence.tasks_lost or evidence.histories_lost
    return any(states.allows(each, after) for each in (shown if other_way else (before,)))


def _messages(evidence: Evidence, received: Sequence[str]) -> Iterator[Finding]:
    """Each message that was sent is received once, in order, until the end."""
    sent = {each.text: each for each in evidence.sent if each.generation == evidence.entity.generation}
    detail = f"{evidence.entity}: {received} of {[*sent]}"
    if len(set(received)) != len(received):
        yield Finding("a message is received twice", detail)
    if strange := [each for each in received if each not in sent]:
        yield Finding("a message is received that nobody sent", f"{strange}: {detail}")
        return
    for place, text in enumerate(received):
        for other in sent.values():
            if other.comes_before(sent[text]) and other.text not in received[:place]:
                yield Finding("a message is lost, or out of order", f"{other.text!r} before {text!r}: {detail}")
                return


def _words(evidence: Evidence, secret: str) -> Iterator[Finding]:
    texts = [text for move in evidence.moves for text in (move.why, move.attention, move.by)]
    texts += [view.why for view in evidence.effects.values()]
    for text in texts:
        if text and secret in text:
            yield Finding("personal data on record", text)
            return


def _kinds(results: Sequence[PerformResult]) -> str:
    return ", ".join(map(str, results))
