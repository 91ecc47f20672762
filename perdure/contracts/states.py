"""States of a lifecycle: the members of a `StrEnum`, some of them marked with `state(...)`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from perdure._text.shown import UNSEEN
from perdure.contracts.spans import check_spans
from perdure.errors import DeclarationError

STARTING = "starting"
"""The state that is shown from an entity's start until its delivery. It is none of its lifecycle's states."""

LONGEST_STATE = 63
"""Bytes of UTF-8: the longest label of an enum in PostgreSQL, which a column of the app may have."""

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class State(Generic[S]):
    """One state of a lifecycle, with the marks of its member of the enum; see `state`."""

    name: S
    leads_to: tuple[str, ...] | None = None
    final: bool = False
    within: timedelta | None = None
    attention: bool = False
    cancelled: bool = False
    aliases: tuple[str, ...] = ()


class _Marked(str):
    """The value of a marked member: the text, and the marks."""

    __slots__ = ("marks",)
    marks: State[Any]

    def __str__(self) -> _Marked:
        return self  # `StrEnum` takes `str(value)` for the member's value


def state(
    name: str,
    *,
    leads_to: tuple[str, ...] | None = None,
    final: bool = False,
    within: timedelta | None = None,
    attention: bool = False,
    cancelled: bool = False,
    aliases: tuple[str, ...] = (),
) -> str:
    """Mark a member of the `StrEnum` that a lifecycle has as its states. A state without marks is a plain string.

    Args:
        name: the state, as it is recorded: 1 to 63 bytes that can be seen.
        leads_to: the only states that may follow. None = every state below it may follow, and after a state with
            `attention` every state but the first. A lifecycle may always stay in its state.
        final: the lifecycle ends in this state. At least one state is final.
        within: an entity should stay in this state no longer. Later it is *stuck*: a metric, and a finding of the
            reconciliation.
        attention: the entity waits for a person.
        cancelled: a `cancel` ends in this state. It is final, only one state can have this mark, and every other state
            that is not final leads to it. A lifecycle without it refuses `cancel`.
        aliases: former names of the state.

    Raises:
        DeclarationError: `leads_to` or `aliases` is no tuple, or `within` is no time.

    Example:
        >>> from enum import StrEnum
        >>> class Stage(StrEnum):
        ...     OPEN = "open"
        ...     LATE = state("late", attention=True)
        ...     PAID = state("paid", final=True)
        >>> Stage.PAID
        <Stage.PAID: 'paid'>
    """
    for argument, given in (("leads_to", leads_to), ("aliases", aliases)):
        if isinstance(given, str):
            raise DeclarationError(f"state({name!r}, ...): {argument}={given!r} must be a tuple: ({given!r},)")
    if within is not None:
        check_spans(f"state({name!r}, ...)", within=within)
    marked = _Marked(name)
    marked.marks = State(name, leads_to, final or cancelled, within, attention, cancelled, aliases)
    return marked


class States(Generic[S]):
    """The checked states of a lifecycle, and the transitions between them.

    Args:
        lifecycle: name of the class, for errors.
        enum: the states, the first one first.

    Raises:
        DeclarationError: the declaration cannot be used.
    """

    def __init__(self, lifecycle: str, enum: type[S]) -> None:
        given: Any = enum
        if not (isinstance(given, type) and issubclass(given, StrEnum)):
            raise DeclarationError(
                f"{lifecycle}: its states are {enum!r}: write `class {lifecycle}(Lifecycle[Input, States])`, where "
                "States is a StrEnum"
            )
        self._lifecycle = lifecycle
        self._check_texts(enum)
        declared: list[State[S]] = [_state(each) for each in enum]
        self._by_name: dict[str, State[S]] = {_text(each.name): each for each in declared}
        self._today = {former: _text(each.name) for each in declared for former in each.aliases}
        self._check_marks(declared)
        self.initial: S = declared[0].name
        self.cancelled: S | None = next((each.name for each in declared if each.cancelled), None)
        self._followers = {_text(each.name): self._find_followers(each, declared) for each in declared}
        self._check_ways(declared)

    def __getitem__(self, name: str) -> State[S]:
        try:
            return self._by_name[_text(name)]
        except KeyError:
            raise DeclarationError(
                f"{self._lifecycle}: {_text(name)!r} is not one of its states{suggestion(_text(name), self._by_name)}"
            ) from None

    def __iter__(self) -> Iterator[State[S]]:
        return iter(self._by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> list[str]:
        """Today's and former names of the states."""
        return [*self._by_name, *self._today]

    def today(self, name: str) -> str:
        """Today's name of a state that is recorded as `name`; `name` itself if it has no other.

        For `starting` it is the first state, because a run may begin before the delivery of its start is recorded.
        """
        return _text(self.initial) if name == STARTING else self._today.get(name, name)

    def on_record(self, name: str) -> State[S]:
        """The state `name`. If it is not declared any more, a state that is not final and needs a person."""
        return self._by_name.get(name) or State(name, attention=True)  # type: ignore[arg-type]

    def followers(self, name: str) -> tuple[S, ...]:
        """The states that may follow. The state of a cancel is among them, unless `name` is final."""
        return self._followers[_text(self[name].name)]

    def allows(self, before: str, after: str) -> bool:
        """Whether `after` may follow `before`. Staying is always allowed."""
        return before == after or self[after].name in self.followers(before)

    def leads(self, before: str, after: str) -> bool:
        """Whether `after` may follow `before`, directly or through other states that need no person. Those that do may
        lead anywhere, which is no order."""
        usual = {name for name, each in self._by_name.items() if not each.attention}
        return after in self._reached(before, usual)

    def _reached(self, before: str, through: Collection[str] | None = None) -> set[str]:
        reached: set[str] = set()
        ahead = [before]
        while ahead:
            followers = {_text(each) for each in self.followers(ahead.pop())}
            ahead += [each for each in followers - reached if through is None or each in through]
            reached |= followers
        return reached

    def _find_followers(self, before: State[S], declared: list[State[S]]) -> tuple[S, ...]:
        if before.final and before.leads_to:
            raise DeclarationError(f"{self._lifecycle}: {_text(before.name)!r} is final, but leads on")
        if before.final:
            return ()
        usual = declared[1:] if before.attention else declared[declared.index(before) + 1 :]
        followers = usual if before.leads_to is None else [self[each] for each in before.leads_to]
        cancelled = [] if self.cancelled is None else [self.cancelled]
        names = dict.fromkeys([*(each.name for each in followers), *cancelled])
        return tuple(each for each in names if each is not before.name)

    def _check_texts(self, enum: type[S]) -> None:
        # A second member with the same text is only another name of the first one, so its marks are lost.
        for name, member in enum.__members__.items():
            if name != member.name:
                raise DeclarationError(
                    f"{self._lifecycle}: {member.name} and {name} are both {_text(member)!r}: give each its own text"
                )
            text = _text(member)
            length = len(text.encode(errors="surrogatepass"))
            if not 0 < length <= LONGEST_STATE or UNSEEN.search(text) or text != text.strip(" "):
                raise DeclarationError(
                    f"{self._lifecycle}: the state {text[:80]!r} can't be shown: use 1 to {LONGEST_STATE} bytes that "
                    "can be seen, without blanks at an end"
                )

    def _check_marks(self, declared: list[State[S]]) -> None:
        if not declared:
            raise DeclarationError(f"{self._lifecycle}: its enum of states is empty: it needs a final state at least")
        former = [name for each in declared for name in each.aliases]
        if taken := [name for name in former if name in self._by_name or former.count(name) > 1]:
            raise DeclarationError(f"{self._lifecycle}: aliases={taken[0]!r} is the name of another state as well")
        ends = [_text(each.name) for each in declared if each.cancelled]
        if len(ends) > 1:
            raise DeclarationError(f"{self._lifecycle}: {ends[0]!r} and {ends[1]!r} are both cancelled=True: keep one")
        if STARTING in self.names:
            raise DeclarationError(
                f"{self._lifecycle}: {STARTING!r} is what an entity shows until it is delivered: choose another name"
            )
        if not any(each.final for each in declared):
            last = declared[-1].name
            raise DeclarationError(
                f"{self._lifecycle}: no state is final, so it could never end: mark one, as in "
                f"{last.name} = state({_text(last)!r}, final=True)"
            )

    def _check_ways(self, declared: list[State[S]]) -> None:
        reached = {_text(self.initial), *self._reached(self.initial)}
        if lost := [name for name in self._by_name if name not in reached and not self[name].cancelled]:
            raise DeclarationError(f"{self._lifecycle}: no state leads to {lost[0]!r}")
        if stuck := [name for name, followers in self._followers.items() if not (followers or self[name].final)]:
            raise DeclarationError(
                f"{self._lifecycle}: {stuck[0]!r} leads to no state: give it final=True, or leads_to= with "
                "those that may follow"
            )


def _state(member: S) -> State[S]:
    value = member.value
    return replace(value.marks, name=member) if isinstance(value, _Marked) else State(member)


def _text(name: str) -> str:
    """The plain text of a state, which is a member of the enum or a marked value."""
    return str.__str__(name)


def suggestion(given: str, known: object) -> str:
    """ "; did you mean 'x'?" or the list of what there is."""
    names = sorted(str(each) for each in known)  # type: ignore[attr-defined]
    near = difflib.get_close_matches(given, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names) or 'none'}"
