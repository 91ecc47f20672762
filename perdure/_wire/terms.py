"""`Terms`: the part of an effect's contract that determines the path of a run, as the run's history holds it.

A worker replays each open run with today's code. If the policy came from that code, an edit would lead old runs on
paths that they never took. So a run begins with the terms of its time, and each answer about an unsettled effect brings
the terms of the worker that gave it. The history holds both.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_serializer

from perdure.contracts.argument_types import check_types
from perdure.contracts.effects import Effect, Lookup, check_doubt, check_timeout
from perdure.contracts.limits import RateLimit
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Escalate, Repeat, RetryPolicy
from perdure.errors import DeclarationError


class _Lean(BaseModel):
    """Default values are not written, because the terms are in every history."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True)

    @model_serializer(mode="plain")
    def _without_defaults(self) -> dict[str, Any]:
        usual = _usual(type(self))
        return {name: value for name, value in self.__dict__.items() if value != usual[name]}


@cache
def _usual(kind: type[BaseModel]) -> dict[str, Any]:
    return {name: field.default for name, field in kind.model_fields.items()}


class AskFirstTerms(_Lean):
    """The terms of a look-up."""

    name: str
    timeout: timedelta
    inline: bool = False
    task_queue: str | None = None
    limit: RateLimit | None = None


class DoubtTerms(_Lean):
    """The terms of a doubt policy. The fields in use depend on `kind`."""

    kind: Literal["repeat", "escalate", "dedupe", "lookup"]
    otherwise: Literal["repeat", "escalate"] = "escalate"
    window: timedelta | None = None
    margin: timedelta = timedelta(minutes=1)
    lookup: AskFirstTerms | None = None
    visibility_delay: timedelta | None = None
    misses: int = 1
    tries: int | None = 5
    every: timedelta = timedelta(seconds=1)

    @property
    def repeats(self) -> bool:
        """Whether an effect that may have happened is repeated without a question."""
        return self.kind == "repeat" or (self.kind == "dedupe" and self.otherwise == "repeat")


class Terms(_Lean):
    """The terms of an effect.

    Attributes:
        name: activity type under which a run calls the effect.
        inline: whether the run calls it as a local activity.
        limited: whether it keeps to a limit, so a cancel withdraws an attempt that waits for its turn.
    """

    name: str
    inline: bool = False
    limited: bool = False
    timeout: timedelta
    in_doubt: DoubtTerms
    retry: RetryPolicy = RetryPolicy()

    @property
    def doubt(self) -> DoubtPolicy[Any, Any]:
        """The doubt policy, for `decide`."""
        return _policy(self.in_doubt)


class OwnTerms(_Lean):
    """The terms of one performance; None = as the run's. Today's contract has no part in them: it is not in the
    history, and a replay by other code would take another path."""

    timeout: timedelta | None = None
    in_doubt: DoubtTerms | None = None
    retry: RetryPolicy | None = None

    @property
    def doubt(self) -> DoubtPolicy[Any, Any] | None:
        """The doubt policy, if it is of this performance."""
        return None if self.in_doubt is None else _policy(self.in_doubt)

    def over(self, terms: Terms) -> Terms:
        """The terms of the run, with these in place of the same ones there. How the look-up is called is no term of a
        performance: it comes from the run's own terms."""
        in_doubt, lookup = self.in_doubt, terms.in_doubt.lookup
        if in_doubt is not None and in_doubt.lookup is not None and lookup is not None:
            in_doubt = in_doubt.model_copy(update={"lookup": lookup})
        given = {"timeout": self.timeout, "in_doubt": in_doubt, "retry": self.retry}
        return terms.model_copy(update={name: value for name, value in given.items() if value is not None})


def _policy(terms: DoubtTerms) -> DoubtPolicy[Any, Any]:
    otherwise = Repeat() if terms.otherwise == "repeat" else Escalate()
    if terms.kind == "dedupe" and terms.window is not None:
        return Dedupe(terms.window, terms.margin, otherwise)
    if terms.kind == "lookup" and terms.lookup is not None and terms.visibility_delay is not None:
        how = terms.lookup
        find = Lookup[Any, Any](
            how.name, timeout=how.timeout, inline=how.inline, task_queue=how.task_queue, limit=how.limit
        )
        return AskFirst(find, terms.visibility_delay, terms.misses, terms.tries, terms.every, otherwise)
    return Repeat() if terms.kind == "repeat" else Escalate()


@cache
def terms_of(effect: Effect[Any, Any]) -> Terms:
    """The terms of today's contract. They are part of each start, and are made once."""
    return Terms(
        name=effect.name,
        inline=effect.inline,
        limited=effect.limit is not None,
        timeout=effect.timeout,
        in_doubt=_doubt_terms(effect.doubt),
        retry=effect.retry,
    )


def own_terms(
    effect: Effect[Any, Any],
    *,
    doubt: DoubtPolicy[Any, Any] | None,
    timeout: timedelta | None,
    retry: RetryPolicy | None,
) -> OwnTerms | None:
    """The terms of one performance; None if it has none of its own.

    Raises:
        DeclarationError: the terms cannot be used.
    """
    if doubt is None and timeout is None and retry is None:
        return None
    wanted, limit = doubt or effect.doubt, effect.timeout if timeout is None else timeout
    check_timeout(effect.name, limit)
    check_doubt(effect.name, wanted, limit)
    check_types(effect.name, RetryPolicy | None, retry=retry)
    if isinstance(wanted, AskFirst) and wanted.lookup is not effect.lookup:
        raise DeclarationError(
            f"{effect.name}: no worker is certain to answer {wanted.lookup!r}: "
            "declare it in the effect's own doubt policy"
        )
    return OwnTerms(timeout=timeout, in_doubt=None if doubt is None else _doubt_terms(doubt), retry=retry)


def all_terms(effects: Iterable[Effect[Any, Any]]) -> dict[str, Terms]:
    """The terms of each effect, by the name in its keys."""
    return {effect.identity: terms_of(effect) for effect in effects}


def _doubt_terms(policy: DoubtPolicy[Any, Any]) -> DoubtTerms:
    match policy:
        case Repeat():
            return DoubtTerms(kind="repeat")
        case Escalate():
            return DoubtTerms(kind="escalate")
        case Dedupe(window, margin, otherwise):
            return DoubtTerms(kind="dedupe", window=window, margin=margin, otherwise=_kind(otherwise))
        case AskFirst(find, visibility_delay, misses, tries, every, otherwise):
            how = AskFirstTerms(
                name=find.name, timeout=find.timeout, inline=find.inline, task_queue=find.task_queue, limit=find.limit
            )
            return DoubtTerms(
                kind="lookup",
                lookup=how,
                visibility_delay=visibility_delay,
                misses=misses,
                tries=tries,
                every=every,
                otherwise=_kind(otherwise),
            )


def _kind(otherwise: Repeat | Escalate) -> Literal["repeat", "escalate"]:
    return "repeat" if isinstance(otherwise, Repeat) else "escalate"
