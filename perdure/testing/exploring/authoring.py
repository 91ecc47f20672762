"""Writes random programs for the interpreter."""

from __future__ import annotations

from random import Random
from typing import Any

from perdure.testing.exploring.contracts import OWN, SCAN, contracts
from perdure.testing.exploring.programs import NAME, ORDER, OTHER, Place, Program

DEPTH = 2
"""Levels of nesting of large programs."""
RARE = 0.2
"""The usual share of what programs seldom have."""
_LARGE = 0.2
"""Share of large programs. Most are small: a run costs what its effects cost, and most mistakes need one or two."""


class Author:
    """Writes random programs.

    Args:
        random: the source of all that is random.
        rare: the share of steps that are of a rare kind.
        starts: whether they start other entities, and have receipts that are too large for the older build.
        bugs: whether workflow tasks of the older build fail.
    """

    def __init__(self, random: Random, rare: float = 0.0, *, starts: bool = False, bugs: bool = False) -> None:
        self._random, self._rare, self._starts, self._bugs = random, rare, starts, bugs
        self._suffixes = 0
        self._place = 0
        self._goes_round = False
        self._started = 0
        self._names = [name for name in contracts(0) if name != SCAN]

    def program(self, secret: str) -> Program:
        """A program with its own way to a cancelled end."""
        random, self._secret = self._random, secret
        large = random.random() < _LARGE
        steps = self._steps(DEPTH, random.randint(1, 4)) if large else self._steps(1, random.randint(1, 2))
        advance = self._advance(steps) if self._is_rare() and random.random() < 0.5 else []
        cancelling = [self._performance({})] if random.random() < 0.4 else []
        if self._is_rare():
            more = (["step"], ["save"], ["until", random.randint(1, 60)], ["enter", Place.HELD.value])
            cancelling.insert(random.randint(0, len(cancelling)), random.choice(more))
        if random.random() < 0.3 and self._place < len(ORDER) - 1:
            steps.append(self._last())
        if any(each[0] == "detached" for each in steps) and random.random() < 0.5:
            steps.append(["join"])
        given = Program(steps=steps, at_cancel=cancelling, secret=secret)
        given.at_message, given.at_update = self.handler(advance), self.handler([])
        return given

    def handler(self, words: list[Any]) -> list[Any]:
        """The program of the handler of a message, with the words that it has already."""
        random = self._random
        if words or (self._is_rare() and random.random() < 0.5):
            held = random.choice((["enter", Place.HELD.value], self.held()))
            more = (["step"], ["save"], self._performance({}), held, self._nested(0, "handler"))
            words = [*words, *(each for each in more if random.random() < 0.3)]
            if self._bugs and self._is_rare() and self._is_rare():
                words.append(["bug"])
            random.shuffle(words)
        return words

    def _last(self) -> list[Any]:
        """An effect that ends the entity if it is done, alone or beside others, whose ends it has to await."""
        last = self._performance({"then": Place.ENDED.value})
        random = Random(f"beside {last}")  # of its own, so that the steps of a seed do not depend on it
        if random.random() < 0.5:
            return last
        first, second = (["perform", random.choice(self._names), f"{last[2]}b{number}", {}] for number in (1, 2))
        branches = [[last], [first], *([[second]] if random.random() < 0.3 else [])]
        if random.random() < 0.3:
            branches[1].insert(0, random.choice((["step"], ["save"], ["until", random.randint(1, 9)])))
        return [random.choice(("gather", "group")), branches]

    def held(self) -> list[Any]:
        """The performance of an effect that enters a state in which a person is needed."""
        return self._performance({self._random.choice(("entering", "then")): Place.HELD.value})

    def _advance(self, steps: list[Any]) -> list[Any]:
        """Let the handler of a message enter a state on the way. Returns its program."""
        if self._goes_round or self._place > len(ORDER) - 4:
            return []
        random, before, state = self._random, self._next_place(), self._next_place()
        steps += [["enter", before], ["advanced", state]]
        if random.random() < 0.5:
            steps.insert(-1, random.choice((["step"], ["until", random.randint(1, 60)], ["renew"])))
        if random.random() < 0.5:
            steps.append(self._performance({}))
        return [["advance", state]]

    def _steps(self, depth: int, length: int, *, alone: bool = True) -> list[Any]:
        return [self._step(depth, alone) for _ in range(length)]

    def _step(self, depth: int, alone: bool) -> list[Any]:
        random = self._random
        choice = random.random()
        if depth and self._is_rare() and (step := self._rare_step(depth, alone)):
            return step
        if choice < 0.6 or not depth:
            performance = self._performance(self._moves(alone))
            return self._until_done(performance) if alone and self._is_rare() else performance
        if choice < 0.75:
            most = depth  # a small program has two branches of one step
            branches = range(random.randint(2, 1 + most))
            steps = [self._steps(depth - 1, random.randint(1, most), alone=False) for _ in branches]
            return [random.choice(("gather", "group")), steps]
        if choice < 0.82:
            return ["until", random.randint(1, 120)]
        if choice < 0.87 and alone:
            return ["messages", random.randint(1, 2)]
        if choice < 0.92:
            return ["step"]
        if choice < 0.96 and alone and self._place < len(ORDER) - 2:
            return ["enter", self._next_place()]
        return ["save"]

    def _rare_step(self, depth: int, alone: bool) -> list[Any] | None:
        random = self._random
        match random.choice(("race", "within", "within", "messages", "renew", "rounds", "start", "bug", "nested")):
            case "race":
                branches = [self._steps(depth - 1, 1, alone=False) for _ in range(2)]
                return ["race", [*branches, [["retry"]]] if self._is_rare() else branches]
            case "within":
                steps = [["retry"]] if self._is_rare() else self._steps(depth - 1, 1, alone=False)
                return ["within", random.choice((1, 4, 10, 40)), steps]
            case "messages" if alone:
                return ["messages", random.randint(1, 2), random.choice((2, 10, 60))]
            case "renew":
                return ["renew"]
            case "rounds" if alone and not self._place and not self._goes_round:
                return self._rounds()
            case "bug" if alone and self._bugs and self._is_rare():
                return ["bug"]
            case "nested":
                return self._nested(depth - 1, "run")
            case "start" if self._starts:
                self._started += 1
                return ["start", OTHER, self._started, self._child()]
        return None

    def _nested(self, depth: int, lock: str) -> list[Any]:
        """A step that a time-out or another branch may leave, and what it holds then."""
        random = self._random
        steps = self._steps(depth, random.randint(1, 2), alone=False)
        lock = f"{lock} {depth}"  # inside of it, another one is taken: asyncio's lock cannot be taken twice
        return random.choice(
            (
                ["within", random.choice((1, 4, 10)), [["shield", steps]]],
                ["race", [[["shield", steps]], [["until", random.randint(1, 20)]]]],
                ["group", [[["lock", lock, steps]], [["lock", lock, [self._performance({})]]]]],
                ["detached", steps],
            )
        )

    def _child(self) -> dict[str, Any]:
        """The program of an entity that this one starts. It may start one of the first lifecycle."""
        random, given = self._random, Author(self._random, self._rare).program(self._secret)
        if random.random() < 0.3:
            child = Author(random, self._rare).program(self._secret)
            given.steps.insert(0, ["start", NAME, 1, child.model_dump()])
        if random.random() < 0.5:
            given.steps.append(["tell"])
        return given.model_dump()

    def _rounds(self) -> list[Any]:
        random = self._random
        self._goes_round = True
        moves = {"entering": Place.TURN.value, **random.choice(({}, {"again": True}, {"then": Place.REST.value}))}
        performance = self._performance(moves)
        steps = [self._until_done(performance) if self._is_rare() else performance]
        if random.random() < 0.5:
            more = (["until", random.randint(1, 60)], self._performance({}), ["messages", 1, 20], ["step"])
            steps.insert(random.randrange(2), random.choice(more))
        how = random.choice(({}, {"same": True}, {"kept": "before"}, {"kept": "after"}))
        return ["rounds", random.randint(2, 3), how, steps]

    def _performance(self, more: dict[str, Any]) -> list[Any]:
        random = self._random
        self._suffixes += 1
        if random.random() < 0.2 and "again" not in more:  # else it would expire without end
            more["expires"] = random.choice((3, 8, 20, 60))
        name = random.choice(self._names)
        if self._starts and self._is_rare() and self._is_rare():
            name, more = SCAN, {**more, "large": True}
        elif self._is_rare():
            more |= self._rare_terms(name)
        return ["perform", name, f"p{self._suffixes}", more]

    def _until_done(self, performance: list[Any]) -> list[Any]:
        more = {key: each for key, each in performance[3].items() if key not in ("expires", "again")}
        return [*performance[:3], {**more, "until": True}]

    def _rare_terms(self, name: str) -> dict[str, Any]:
        random = self._random
        fit = [each for each in OWN if name.startswith({"window": "dedupe", "ask": "look-up"}.get(each, ""))]
        more: dict[str, Any] = random.choice(({"own": random.choice(fit)}, {"confirmed": True}, {"varies": True}))
        return more

    def _is_rare(self) -> bool:
        return self._rare > 0 and self._random.random() < self._rare

    def _moves(self, alone: bool) -> dict[str, Any]:
        random = self._random
        more: dict[str, Any] = {}
        if not alone or self._place >= len(ORDER) - 3:
            return {}
        if random.random() < 0.4:
            more["entering"] = self._next_place()
        if random.random() < 0.2:
            more |= {"then": self._next_place(), "again": True}
        if random.random() < 0.3:
            more["again"] = True
        return more

    def _next_place(self) -> str:
        self._place += 1
        return ORDER[self._place].value
