"""Compares what every record says of a lifecycle with what the other side really has. Pure: facts in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.states import STARTING
from perdure.testing.exploring import scenario as exploring

SETTLE = 0.5
"""Seconds: the shortest `visibility_delay` of the lifecycles here. What arrives later after its last check is
excluded."""

AT_LEAST_ONCE = ("repeat", "repeat-inline", "march")
DONE = {"done", "sent", "there"}


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """One key: what the fence says, and what the other side has.

    Attributes:
        accepted: how often the other side accepted it.
        late: how many of those arrived more than `SETTLE` after their sender's last check.
        dropped: how many repeats the other side dropped.
    """

    key: str
    status: str | None
    accepted: int = 0
    late: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """All there is to know of one lifecycle.

    Attributes:
        kept: whether the app's transaction was to be kept.
        app_row: whether the app has its row.
        column: what the app's own column shows; None where the lifecycle declares none.
        known: whether `ident` knows it, with `final` and `generation`.
        entity: state of its row in `entity`, if there is one.
        finished: states of its rows in `finished`.
        trail: states of its rows in `transition`, oldest first.
        workflow: Temporal's status of its workflow; None where it knows none.
        work: what an effect could not show: e.g. a counter's total is too small.
        judged: of a generated one, what the exploration's judge says; None = it is another, or is not over.
    """

    lifecycle: str
    id: str
    kept: bool
    app_row: bool
    column: str | None
    known: bool
    final: str | None
    entity: str | None
    finished: tuple[str, ...]
    trail: tuple[str, ...]
    workflow: str | None
    effects: tuple[EffectFacts, ...]
    work: tuple[str, ...] = ()
    judged: Sequence[exploring.Finding] | None = None

    @property
    def accepted(self) -> int:
        """How often the other side did what this lifecycle wants."""
        return sum(effect.accepted for effect in self.effects)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be. `kind` is `lost`, `twice`, `mismatch`, `left over` or `process`."""

    kind: str
    who: str
    what: str


@dataclass(slots=True)
class Verdict:
    """What the audit found; what is excluded by design is counted apart, with the reason."""

    findings: list[Finding] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)


def audit(
    subjects: Sequence[Facts], ways: Mapping[str, Mapping[str, frozenset[str]]], left_over: Mapping[str, int]
) -> Verdict:
    """Look at every lifecycle.

    Args:
        ways: by lifecycle, which states each state may lead to.
        left_over: rows in the tables that must be empty at the end, by table.
    """
    verdict = Verdict()
    for subject in subjects:
        who = f"{subject.lifecycle}/{subject.id}"
        verdict.ends[_end(subject)] += 1
        problems = _of_kept(subject, ways[subject.lifecycle]) if subject.kept else _of_rolled_back(subject)
        verdict.findings += [Finding(kind, who, what) for kind, what in problems]
        verdict.findings += [Finding("twice", who, what) for what in _twice(subject, verdict.excluded)]
    for table, rows in left_over.items():
        if rows:
            verdict.findings.append(Finding("left over", table, f"{rows} rows"))
    return verdict


def _end(subject: Facts) -> str:
    if not subject.kept:
        return "rolled back"
    return subject.final or "not ended"


def _of_rolled_back(subject: Facts) -> Iterator[tuple[str, str]]:
    traces = {
        "ident": subject.known,
        "entity": subject.entity,
        "transition": subject.trail,
        "effect": any(effect.status for effect in subject.effects),
        "the app's table": subject.app_row,
        "Temporal": subject.workflow,
        "the other side": subject.accepted,
    }
    if there := [where for where, trace in traces.items() if trace]:
        yield "mismatch", f"was rolled back, and is in {', '.join(there)}"


def _of_kept(subject: Facts, ways: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    if not subject.known:
        yield "lost", "was committed, and ident does not know it"
        return
    if subject.final is None:
        yield "lost", f"has not ended: {subject.entity}, in Temporal {subject.workflow}"
        return
    if subject.final in DONE and subject.effects and not subject.accepted:
        yield "lost", f"is {subject.final}, and the other side has nothing of it"
    yield from (("lost", what) for what in subject.work)
    yield from (("mismatch", what) for what in _disagreements(subject))
    if subject.judged is not None:
        yield from (("twice" if each.kind == "done twice" else "mismatch", str(each)) for each in subject.judged)
        return
    yield from (("mismatch", what) for what in _steps(subject.trail, ways, subject.final))
    for effect in subject.effects:
        if what := _misjudged(effect):
            yield "mismatch", what


def _disagreements(subject: Facts) -> Iterator[str]:
    if subject.entity is not None:
        yield f"ident says {subject.final}, and entity still has it as {subject.entity}"
    if subject.finished != (subject.final,):
        yield f"ident says {subject.final}, and finished says {list(subject.finished)}"
    if subject.column is not None and subject.column != subject.final:
        yield f"ident says {subject.final}, and the app's column says {subject.column}"
    if subject.workflow != "COMPLETED":
        yield f"ident says {subject.final}, and Temporal says {subject.workflow}"
    if not subject.app_row:
        yield "was committed, and the app's row is not there"
    if subject.final in DONE and any(effect.status != EffectStatus.DONE for effect in subject.effects[-1:]):
        yield f"ident says {subject.final}, and its last effect is {subject.effects[-1].status}"


def _steps(trail: Sequence[str], ways: Mapping[str, frozenset[str]], final: str) -> Iterator[str]:
    first = next(iter(ways))  # until its delivery an entity shows another word for it
    trail = [first if each == STARTING else each for each in trail]
    if not trail or trail[0] != first or trail[-1] != final:
        yield f"transitions {trail} do not lead from {first} to {final}"
    for before, after in pairwise([state for state, _ in groupby(trail)]):
        if after not in ways[before]:
            yield f"went from {before} to {after}, which is not declared"


def _misjudged(effect: EffectFacts) -> str | None:
    if effect.status == EffectStatus.DONE and not effect.accepted:
        return f"{effect.key} is done on record, and the other side has nothing of it"
    if effect.status in (None, EffectStatus.NOT_DONE, EffectStatus.REFUSED) and effect.accepted > effect.late:
        return f"{effect.key} is {effect.status} on record, and the other side has it {effect.accepted} times"
    return None


def _twice(subject: Facts, excluded: Counter[str]) -> Iterator[str]:
    dropped = sum(effect.dropped for effect in subject.effects)
    if dropped:
        excluded["repeats that the other side dropped (Dedupe)"] += dropped
    if subject.judged is not None:
        again = sum(max(effect.accepted - 1, 0) for effect in subject.effects)
    else:
        again = subject.accepted - 1
    if again <= 0:
        return
    if subject.lifecycle in AT_LEAST_ONCE or subject.judged is not None:
        excluded["done again on purpose (Repeat)"] += again
        return
    late = sum(effect.late for effect in subject.effects)
    if again <= late:
        excluded["arrived later than `visibility_delay` after the sender's last check (frozen)"] += again
        return
    yield f"the other side has it {subject.accepted} times: " + ", ".join(
        f"{effect.key} x {effect.accepted}" for effect in subject.effects if effect.accepted
    )
