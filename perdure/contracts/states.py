"""States of a lifecycle, declared with the states they may lead to; one that leads nowhere is final."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from perdure.contracts.spans import check_spans
from perdure.errors import DeclarationError

STARTING = "starting"
"""What is shown of an entity from its start until its delivery: it is in none of its lifecycle's states yet."""

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class State(Generic[S]):
    """One declared state; make it with `state(...)`."""

    name: S
    leads_to: tuple[S, ...]
    within: timedelta | None
    attention: bool
    cancelled: bool
    aliases: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether a lifecycle that enters it is over."""
        return not self.leads_to


def state(
    name: S,
    *leads_to: S,
    within: timedelta | None = None,
    attention: bool = False,
    cancelled: bool = False,
    aliases: tuple[str, ...] = (),
) -> State[S]:
    """Declare a state.

    Args:
        name: the state.
        leads_to: the states that may follow; none = it is final.
        within: how long it should last at most; longer is reported as stuck.
        attention: it wants a person.
        cancelled: a `cancel` ends here, from every state that is not final; it must be final.
        aliases: names that it had before: who is in one of those is in this state.

    Raises:
        DeclarationError: one of them is no member of a `StrEnum`, `aliases` is no tuple, or `within` is no time.

    Example:
        >>> class Way(StrEnum):
        ...     OPEN = "open"
        ...     PAID = "paid"
        >>> state(Way.OPEN, Way.PAID, within=timedelta(minutes=5)).final, state(Way.PAID).final
        (False, True)
    """
    if isinstance(aliases, str):
        raise DeclarationError(f"state({name!r}, ...): aliases={aliases!r} must be a tuple: ({aliases!r},)")
    check_spans(f"state({name!r}, ...)", within=within)
    for each in (name, *leads_to):
        if not isinstance(each, StrEnum):
            raise DeclarationError(f"state({name!r}, ...): {each!r} is no member of a StrEnum")
    return State(name, leads_to, within, attention, cancelled, aliases)


class States(Generic[S]):
    """The checked set of a lifecycle's states.

    Raises:
        DeclarationError: where the declaration can't work.
    """

    def __init__(self, lifecycle: str, declared: Sequence[State[S]]) -> None:
        self._lifecycle = lifecycle
        self._by_name: dict[str, State[S]] = {each.name.value: each for each in declared}
        self._today = {former: each.name.value for each in declared for former in each.aliases}
        self._check(declared)
        self.initial: S = declared[0].name
        self.cancelled: S | None = next((each.name for each in declared if each.cancelled), None)

    def __getitem__(self, name: str) -> State[S]:
        try:
            return self._by_name[str(name)]
        except KeyError:
            raise DeclarationError(
                f"{self._lifecycle}: {str(name)!r} is not one of its states{suggestion(str(name), self._by_name)}"
            ) from None

    def __iter__(self) -> Iterator[State[S]]:
        return iter(self._by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> list[str]:
        """The names that an entity on record may be in: today's, and former ones."""
        return [*self._by_name, *self._today]

    def today(self, name: str) -> str:
        """Today's name of a state that was on record as `name`; the same where it has no other.

        The first one for `starting`: a run may be under way before it is on record that its start is delivered.
        """
        return self.initial.value if name == STARTING else self._today.get(name, name)

    def on_record(self, name: str) -> State[S]:
        """The state `name`; one that leads nowhere else and wants a person, where it is not declared any more."""
        return self._by_name.get(name) or State(name, (name,), None, True, False)  # type: ignore[arg-type]

    def followers(self, name: str) -> tuple[S, ...]:
        """The states that may follow: those that are declared, and where it is not final the one of a cancel."""
        before, ends = self[name], self.cancelled
        return before.leads_to if before.final or ends is None or ends in before.leads_to else (*before.leads_to, ends)

    def allows(self, before: str, after: str) -> bool:
        """Whether `after` may follow `before`. Staying is always allowed."""
        return before == after or self[after].name in self.followers(before)

    def leads(self, before: str, after: str) -> bool:
        """Whether `after` may follow `before`, at once or over others."""
        reached: set[str] = set()
        ahead = [before]
        while ahead:
            followers = {each.value for each in self.followers(ahead.pop())}
            ahead += followers - reached
            reached |= followers
        return after in reached

    def _check(self, declared: Sequence[State[S]]) -> None:
        if not declared:
            raise DeclarationError(f"{self._lifecycle}: `states` is empty: declare at least one final state")
        if len(self._by_name) != len(declared):
            raise DeclarationError(f"{self._lifecycle}: a state is declared twice")
        former = [name for each in declared for name in each.aliases]
        if taken := [name for name in former if name in self._by_name or former.count(name) > 1]:
            raise DeclarationError(f"{self._lifecycle}: aliases={taken[0]!r} is the name of another state as well")
        ends = [each.name.value for each in declared if each.cancelled]
        if len(ends) > 1:
            raise DeclarationError(f"{self._lifecycle}: {ends[0]!r} and {ends[1]!r} are both cancelled=True: keep one")
        if STARTING in self.names:
            raise DeclarationError(
                f"{self._lifecycle}: {STARTING!r} is what an entity shows until it is delivered: take another name"
            )
        reached = {declared[0].name.value, *ends}
        for each in declared:
            for follower in each.leads_to:
                self[follower]
                reached.add(follower.value)
            if each.cancelled and each.leads_to:
                raise DeclarationError(f"{self._lifecycle}: {each.name.value!r} is cancelled=True but leads on")
        if lost := [name for name in self._by_name if name not in reached]:
            raise DeclarationError(f"{self._lifecycle}: no state leads to {lost[0]!r}")
        if not any(each.final for each in declared):
            raise DeclarationError(f"{self._lifecycle}: no state is final (leads nowhere), so it could never end")
        kinds = {type(each.name) for each in declared}
        if len(kinds) > 1:
            raise DeclarationError(f"{self._lifecycle}: its states come from several enums")
        for member in kinds.pop():
            if member.value not in self._by_name:
                raise DeclarationError(f"{self._lifecycle}: {member.value!r} is in the enum but not declared")


def suggestion(given: str, known: object) -> str:
    """ "; did you mean 'x'?" or the list of what there is."""
    names = sorted(str(each) for each in known)  # type: ignore[attr-defined]
    near = difflib.get_close_matches(given, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names) or 'none'}"
