"""Explores an author's lifecycle over the whole of its life, and checks what the author gives for that."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from pydantic_core import to_jsonable_python
from temporalio import workflow

from perdure._wire.messages import Message
from perdure._worker.determinism import Unreadable
from perdure._worker.determinism import check as check_determinism
from perdure._workflow.lifecycle import Lifecycle
from perdure._workflow.messages import unfit
from perdure.app import App, contracts_of, name_of
from perdure.client.naming import input_text
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import InDoubt, NotDone, Refused
from perdure.contracts.steps import Step
from perdure.errors import InvalidInput
from perdure.testing.exploring.explorer import Explorer, quiet
from perdure.testing.exploring.runs import Run
from perdure.testing.exploring.scenario import Event, Finding, Scenario
from perdure.testing.exploring.scenario_end import ScenarioEnd, end_of
from perdure.testing.exploring.subject import Subject, bodies_of
from perdure.testing.exploring.virtual_time import PAUSE
from perdure.testing.exploring.world import HELP, World
from perdure.testing.script import ScriptError

Contract = Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]
CHECK_FAILS = "the check fails"
OTHER_WAY = "a new run goes another way"
_CALM = 8
"""One of so many scenarios has nothing but messages and new runs, and is compared with the same one without those."""
_APART = 30.0
"""Seconds at least between a message of such a scenario and what an undisturbed lifecycle does by itself."""


class AuthorsExplorer(Explorer):
    """Explores an author's lifecycle.

    Args:
        subject: what is explored.
        given: makes the input of a scenario.
        check: the author's own rule, or None.
        mistakes: those of the author's functions, in the order in which they were called.
    """

    def __init__(
        self,
        subject: Subject,
        given: Callable[[Random], Any],
        check: Callable[[ScenarioEnd], None] | None,
        mistakes: Sequence[ScriptError],
    ) -> None:
        self._course = _course_of(subject, given(Random(0)))
        super().__init__(replace(subject, sends=max(subject.sends, self._course.messages)), given)
        self._check, self._mistakes = check, mistakes

    def scenario(self, seed: int) -> Scenario:
        """See base class. Faults and events come in the whole life of the lifecycle."""
        random = Random(f"when {seed}")
        if seed % _CALM == _CALM - 1:
            return self._course.calm(Scenario(seed, self._given(Random(seed)), builds=(0,)), random)
        one = self._course.spread(super().scenario(seed), random)
        return self._course.visited(one, len(self.subject.messages), random) if random.random() < 0.5 else one

    def world(self, one: Scenario, covered: Counter[tuple[str, str]] | None = None, *, traced: bool = True) -> World:
        """See base class."""
        world = super().world(one, covered, traced=traced)
        if self._mistakes:
            raise self._mistakes[0]
        if not world.findings:
            world.findings.extend(self._judge(one, end_of(world, Entity(self.subject.lifecycle, "1", one.restarts))))
        return world

    def _judge(self, one: Scenario, end: ScenarioEnd) -> Iterator[Finding]:
        if self._check is not None:
            try:
                self._check(end)
            except AssertionError as error:
                yield Finding(CHECK_FAILS, f"{str(error) or 'an assert'}; {end}")
        if one.renews and one == replace(one, calls={}, faults=(), builds=(0,), restarts=0, single_batch=False):
            if any(each.what != "message" for each in one.events):
                return
            world = super().world(replace(one, renews=0), traced=False)
            without = end_of(world, Entity(self.subject.lifecycle, "1"))
            if not world.findings and (end.states, end.happened) != (without.states, without.happened):
                yield Finding(OTHER_WAY, f"{end}; in one run it {without}")


@dataclass(frozen=True)
class Course:
    """How a lifecycle goes without a disturbance.

    Attributes:
        moments: seconds after the start at which something happens after a long pause; the first is 0.
        places: how often each place is reached where a fault may come.
        pauses: the long ones, each from one second to another.
        calls: how often each effect is called, by its first name.
        messages: how many it needs; 0 if it does not end.
    """

    moments: Sequence[float] = (0.0,)
    pauses: Sequence[tuple[float, float]] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0

    def calm(self, one: Scenario, random: Random) -> Scenario:
        """A scenario with messages in the pauses, and new runs."""
        pauses = [random.choice(self.pauses) for _ in range(random.randint(0, 3)) if self.pauses]
        times = sorted(round(random.uniform(begin + _APART, end - _APART), 3) for begin, end in pauses)
        events = tuple(Event(at, "message") for at in times)
        return replace(one, events=events, renews=random.choice((1, 2, 3)))

    def visited(self, one: Scenario, count: int, random: Random) -> Scenario:
        """The scenario with `count` messages more: what many lifecycles do begins with one."""
        times = [round(random.choice(self.moments) + random.uniform(0, 60), 3) for _ in range(count)]
        events = [*one.events, *(Event(at, "message") for at in times)]
        return replace(one, events=tuple(sorted(events, key=lambda each: each.at)))

    def spread(self, one: Scenario, random: Random) -> Scenario:
        """A scenario of the first minutes as one of the whole life. Events stay together, or part. Some calls go wrong
        for so long that all attempts and look-ups that a policy allows are used up."""
        late = random.choice(self.moments)
        moments = [late if random.random() < 0.7 else random.choice(self.moments) for _ in one.events]
        events = [
            replace(each, at=round(each.at + moment, 3)) for each, moment in zip(one.events, moments, strict=True)
        ]
        faults = [
            replace(each, number=each.number + random.randrange(max(1, self.places.get(each.place, 0) - 8)))
            for each in one.faults
        ]
        calls = {
            name: ["done"] * random.randrange(max(1, self.calls.get(name, 0))) + script * random.choice((1, 1, 4))
            for name, script in one.calls.items()
        }
        return replace(one, events=tuple(sorted(events, key=lambda each: each.at)), faults=tuple(faults), calls=calls)


def of_lifecycle(
    lifecycle: type[Lifecycle[Any, Any]],
    given: Any,
    other_side: Mapping[Any, Any],
    messages: Sequence[tuple[str, Any]],
    once: Sequence[Effect[Any, Any]],
    check: Callable[[ScenarioEnd], None] | None = None,
) -> Explorer:
    """Explores an author's lifecycle; see `explore`.

    Raises:
        ScriptError: something that is given does not fit the lifecycle.
    """
    _check_class(lifecycle)
    contracts = contracts_of(lifecycle)
    _check_names(contracts, other_side, once)
    mistakes: list[ScriptError] = []
    receipts = {each.identity: _makes(each, other_side[each], mistakes) for each in contracts if each in other_side}
    makes: Callable[[Random], Any] = given if callable(given) else lambda random: given
    for each in messages:
        _check_message(lifecycle, each)
    try:
        input_text(Entity(name_of(lifecycle), "1"), lifecycle, makes(Random(0)))
    except InvalidInput as error:
        raise ScriptError(f"given: {error}") from None
    app = App([lifecycle], bodies_of(lifecycle))
    names = frozenset(each.identity for each in once)
    sends = max(Subject.sends, len(messages))
    subject = Subject(name_of(lifecycle), {0: app, 1: app}, receipts, names, tuple(messages), sends=sends)
    return AuthorsExplorer(subject, makes, check, mistakes)


class _Timed(World):
    """Notes when its workflows are entered."""

    def __init__(self, subject: Subject, given: Any) -> None:
        self.entered_at = [0.0]
        self.seen = Counter[tuple[str, str]]()
        super().__init__(subject, Scenario(0, given), self.seen, traced=False)

    def count_activation(self, run: Run) -> None:
        """See base class."""
        self.entered_at.append(self.loop.time())
        super().count_activation(run)

    @property
    def course(self) -> Course:
        """How the lifecycle has gone."""
        pairs = zip(self.entered_at, self.entered_at[1:], strict=False)
        pauses = [(before, after) for before, after in pairs if after - before >= PAUSE / 2]
        moments = [0.0, *(after for _, after in pauses)]
        calls = {what.partition(" ")[2]: count for (place, what), count in self.seen.items() if place == "call"}
        messages = 0 if self.findings else len(self.database.rows["1"].messages)
        return Course(moments, pauses, dict(self.incidents.reached), calls, messages)


def _course_of(subject: Subject, given: Any) -> Course:
    world = _Timed(replace(subject, sends=HELP), given)
    with quiet():
        world.play(Entity(subject.lifecycle, "1"))
    return world.course


def _check_class(lifecycle: Any) -> None:
    """Refuse what a worker refuses at its start.

    Raises:
        DeclarationError: the code is not deterministic.
    """
    if not isinstance(lifecycle, type) or not issubclass(lifecycle, Lifecycle):
        raise ScriptError(f"{lifecycle!r} is no lifecycle: give a subclass of Lifecycle, and its input after it")
    definition = workflow._Definition.from_class(lifecycle)
    if definition is None:
        raise ScriptError(f"{lifecycle.__name__} is no workflow: put @workflow.defn(name=...) on it")
    if definition.sandboxed:
        with suppress(Unreadable):
            check_determinism(lifecycle)


def _check_names(contracts: Sequence[Contract], other_side: Mapping[Any, Any], once: Sequence[Any]) -> None:
    declared = ", ".join(map(repr, contracts)) or "none"
    for each in other_side:
        if each not in contracts:
            raise ScriptError(f"other_side: {each!r} is no contract of the lifecycle, which has {declared}")
        if isinstance(each, Lookup):
            raise ScriptError(f"other_side: leave out {each!r}, which finds what its effect did")
    for each in contracts:
        if each not in other_side and not isinstance(each, Lookup):
            raise ScriptError(f"other_side has no receipt for {each!r}: give one, or a function of its input")
    for each in once:
        if not isinstance(each, Effect) or each not in contracts:
            raise ScriptError(f"once: {each!r} is no effect of the lifecycle, which has {declared}")


def _check_message(lifecycle: type[Lifecycle[Any, Any]], message: Any) -> None:
    if not isinstance(message, tuple) or len(message) != 2 or not isinstance(message[0], str):
        raise ScriptError(f"messages: {message!r} is no pair of a name and a payload, such as ('stop', None)")
    name, payload = message
    example = to_jsonable_python(payload(1) if callable(payload) else payload)
    if why := unfit(lifecycle, Message(ordinal=1, id="1", kind="signal", name=name, payload=example)):
        raise ScriptError(f"messages: {why}")


def _makes(contract: Contract, receipt: Any, mistakes: list[ScriptError]) -> Callable[[Any], Any]:
    """What makes the receipt of a contract from its input; what is wrong with it is added to `mistakes`."""
    if not callable(receipt):
        _check_receipt(contract, receipt)
        return lambda given: receipt
    if inspect.iscoroutinefunction(receipt):
        raise ScriptError(f"other_side: the function for {contract!r} is a coroutine: give an ordinary one")

    def make(given: Any) -> Any:
        try:
            made = receipt(given)
            _check_receipt(contract, made)
        except (NotDone, Refused, InDoubt):
            raise
        except ScriptError as error:
            mistakes.append(error)
            raise
        except Exception as error:
            mistakes.append(ScriptError(f"other_side: the function for {contract!r} raised {error!r}"))
            raise mistakes[-1] from error
        return made

    return make


def _check_receipt(contract: Contract, receipt: Any) -> None:
    try:
        contract.receipt.validate_python(receipt)
    except ValueError as error:
        raise ScriptError(f"other_side: {receipt!r} is no receipt of {contract!r}: {error}") from None
