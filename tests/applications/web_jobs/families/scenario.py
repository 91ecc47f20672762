"""Random families: what is inserted, what pages answer and list, what operators do; and smaller ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from pydantic import TypeAdapter

from perdure.testing.exploring.scenario import Event, Fault, Scenario
from perdure.testing.exploring.scenarios import FAULTS, PLACES
from perdure.testing.exploring.sql_acts import PLACES as RELAY_PLACES
from perdure.testing.exploring.sql_acts import Act
from perdure.testing.exploring.sql_scenarios import SqlScenario

TYPES: dict[str, dict[str, Any]] = {
    "once": {"doubt": "escalate"},
    "slow": {"doubt": "escalate", "timeout": 20, "not_done": [503], "tries": 3},
    "dedupe": {"doubt": "dedupe"},
    "asked": {"doubt": "lookup", "timeout": 20},
    "asked-else-repeat": {"doubt": "lookup", "otherwise": "repeat"},
    "repeat": {"doubt": "repeat"},
    "back": {"doubt": "lookup", "callback": True},
    "few": {"doubt": "dedupe", "at_once": 1, "timeout": 20},
    "master": {"doubt": "dedupe"},
    "master-asked": {"doubt": "lookup", "otherwise": "repeat", "timeout": 20},
}
"""Job types, and what differs from the defaults; times in seconds."""
LEAVES = [name for name in TYPES if not name.startswith("master")]
MASTERS = [name for name in TYPES if name.startswith("master")]

CALLS = (
    *("no connection", "lost before", "lost after", "lost after", "slow", "slow", "slow", "202", "202", "202", "422"),
    *("429", "503", "500", "500 done", "303 done", "409", "garbage", "too long", "killed after", "frozen"),
)
"""How a call can go; without a word it is done at once. `slow`, `202` = the page works for some seconds."""
WORKS = (0.5, 6.0, 20.0, 60.0, 200.0)
"""Seconds that a page can be at work."""
LOOKS = ("500", "lost", "garbage", "429", "slow")
"""How a look at the status URL, at a location or at a further page of a list can go, beside the truth."""
LISTS = ("500", "lost", "slow", "404", "garbage", "too long", "unusable", "twice", "circle")
"""How a page of a list can go, beside what it lists."""
EVENTS = (
    *("cancel", "cancel through Temporal", "retry", "again", "mirror", "evict", "terminate", "lose Temporal"),
    *("start worker", "worker's clock", *FAULTS),
)
OPERATIONS = ("cancel", "restart", "restart", "restart a child", "disable", "take", "take and delete")


@dataclass(frozen=True)
class Listing:
    """What one fetch of a page of a list brings.

    Attributes:
        how: one of `LISTS`; empty = the list.
        ids: of the children.
    """

    how: str = ""
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """How the page of one job behaves.

    Attributes:
        calls: how its calls go, in their order; one of `CALLS`.
        looks: the same of looks at its status and of how far it is; one of `LOOKS`.
        work: seconds that it is at work.
        ends_well: what it says at the end of its work.
        lists: for a master: of each page of its list what one fetch after the other brings. The last one stays.
    """

    calls: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    work: float = 1.0
    ends_well: bool = True
    lists: tuple[tuple[Listing, ...], ...] = ()
    window: int = 50
    tolerates: int | None = 0


@dataclass(frozen=True)
class Job:
    """A job that an app inserts."""

    id: str
    type: str
    at: float = 0.0
    how: str = ""


@dataclass(frozen=True)
class FamilyScenario(SqlScenario):
    """All that makes a run.

    Attributes:
        jobs: what apps insert.
        types: of the children, by the last part of their ids.
        pages: by the id of the job; a plain one where there is none.
        operations: what operators do; `entity` = number of one of `jobs`.
    """

    jobs: tuple[Job, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    operations: tuple[Act, ...] = ()


SCENARIO = TypeAdapter(FamilyScenario)


def family_scenario(seed: int) -> FamilyScenario:
    """The scenario of a seed."""
    return _Author(Random(f"families {seed}")).scenario(seed)


class _Author:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._pages: dict[str, Page] = {}
        self._types: dict[str, str] = {}

    def scenario(self, seed: int) -> FamilyScenario:
        random = self._random
        jobs = [Job(f"m{number}", random.choice(MASTERS), self._at(2)) for number in range(random.choice((1, 1, 2)))]
        for job in list(jobs):
            self._master(job.id, depth=0)
            if random.random() < 0.4:  # a single job has the id of a child, or of one that could be
                name = random.choice((*self._types, "z"))
                kind = random.choice((*LEAVES, "master"))
                jobs.append(Job(f"{job.id}/{name}", kind, self._at(4), random.choice(("", "", "late", "rolled back"))))
        if random.random() < 0.4:
            jobs.append(Job("single", random.choice(LEAVES), self._at(2)))
        for job in jobs:
            if job.type in LEAVES and job.id not in self._pages:
                self._pages[job.id] = self._leaf()
        operations = [self._operation(len(jobs)) for _ in range(self._few(0.6, 4))]
        hostile = random.random()
        return FamilyScenario(
            seed=seed,
            given=None,
            jobs=tuple(jobs),
            types=dict(self._types),
            pages=dict(self._pages),
            operations=tuple(sorted(operations, key=lambda each: each.at)),
            faults=tuple(
                Fault(random.choice(PLACES), random.randint(1, 60), random.choice(FAULTS), self._seconds())
                for _ in range(self._few(0.6 * hostile, 3))
            ),
            events=tuple(
                sorted(
                    (
                        Event(self._at(60), random.choice(EVENTS), self._seconds())
                        for _ in range(self._few(0.8 * hostile, 4))
                    ),
                    key=lambda each: each.at,
                )
            ),
            builds=random.choice(((1,), (1, 1))),
            relays=random.choice(((1,), (1, 1))),
            relay_faults=tuple(
                Fault(random.choice(RELAY_PLACES), random.randint(1, 6), "kill") for _ in range(self._few(0.3, 2))
            ),
            renews=random.choice((0, 0, 8, 20)),
            single_batch=random.random() < 0.3,
        )

    def _master(self, id: str, depth: int) -> None:
        random = self._random
        names = [f"{'abc'[depth]}{number}" for number in range(random.randint(1, 6))]
        for name in names:
            nested = depth == 0 and random.random() < 0.1
            self._types.setdefault(name, random.choice(MASTERS if nested else LEAVES))
            if self._types[name] in MASTERS:
                self._master(f"{id}/{name}", depth + 1) if depth == 0 else None
            elif random.random() < 0.6:
                self._pages[f"{id}/{name}"] = self._leaf()
        self._pages[id] = Page(
            calls=self._words(CALLS, 0.3),
            looks=self._words(LOOKS, 0.3),
            work=random.choice(WORKS),
            lists=tuple(self._page(names) for _ in range(random.choice((1, 1, 2, 3)))),
            window=random.choice((1, 2, 3, 50)),
            tolerates=random.choice((0, 0, 1, 3, None)),
        )

    def _page(self, names: list[str]) -> tuple[Listing, ...]:
        """What one fetch after the other brings: parts of the same names, so that pages overlap, shift and vanish."""
        random = self._random
        fetches = [Listing(how) for how in self._words(LISTS, 0.25)]
        for _ in range(random.choice((1, 1, 2))):
            fetches.append(Listing("", tuple(random.sample(names, random.randint(0, len(names))))))
        return tuple(fetches)

    def _leaf(self) -> Page:
        return Page(
            calls=self._words(CALLS, 0.6),
            looks=self._words(LOOKS, 0.3),
            work=self._random.choice(WORKS),
            ends_well=self._random.random() < 0.85,
        )

    def _operation(self, jobs: int) -> Act:
        random = self._random
        how = random.choice(("", "", "late", "rolled back"))
        return Act(self._at(90), random.choice(OPERATIONS), random.randrange(jobs), how, self._seconds())

    def _words(self, words: tuple[str, ...], likely: float) -> tuple[str, ...]:
        return tuple(self._random.choice(words) for _ in range(self._few(likely, 3)))

    def _few(self, likely: float, most: int) -> int:
        count = 0
        while count < most and self._random.random() < likely:
            count += 1
        return count

    def _at(self, longest: float) -> float:
        random = self._random
        return round(random.choice((0.0, 0.05, random.uniform(0, 2), random.uniform(0, longest))), 3)

    def _seconds(self) -> float:
        return self._random.choice((0.05, 0.5, 2.0, 6.0, 20.0, 60.0))


def smaller(one: Scenario) -> Iterator[Scenario]:
    """Scenarios that are a little smaller."""
    assert isinstance(one, FamilyScenario)
    for name in ("events", "faults", "relay_faults", "operations", "jobs"):
        for each in range(len(having := getattr(one, name))):
            yield replace(one, **{name: having[:each] + having[each + 1 :]})
    for id, page in one.pages.items():
        for less in _smaller_pages(page):
            yield replace(one, pages={**one.pages, id: less})
        yield replace(one, pages={key: value for key, value in one.pages.items() if key != id})
    plainer = (replace(one, renews=0), replace(one, builds=(1,)), replace(one, relays=(1,)))
    yield from (each for each in (*plainer, replace(one, single_batch=False)) if each != one)


def _smaller_pages(page: Page) -> Iterator[Page]:
    for name in ("calls", "looks", "lists"):
        for each in range(len(having := getattr(page, name))):
            yield replace(page, **{name: having[:each] + having[each + 1 :]})
    for number, fetches in enumerate(page.lists):
        before, after = page.lists[:number], page.lists[number + 1 :]
        for each, listing in enumerate(fetches):
            if len(fetches) > 1:
                yield replace(page, lists=(*before, fetches[:each] + fetches[each + 1 :], *after))
            for place in range(len(listing.ids)):
                less = replace(listing, ids=listing.ids[:place] + listing.ids[place + 1 :])
                yield replace(page, lists=(*before, (*fetches[:each], less, *fetches[each + 1 :]), *after))


def lines_of(one: FamilyScenario) -> str:
    """What happens, line by line."""
    lines = [f"insert {each}" for each in one.jobs]
    for id, page in one.pages.items():
        plain = {each.name: each.default for each in dataclasses.fields(Page)}
        own = {name: getattr(page, name) for name in plain if getattr(page, name) != plain[name]}
        if own:
            lines.append(f"page of {id}: {own}")
    lines += [f"types: {dict(one.types)}", *(str(each) for each in one.operations)]
    lines += [str(each) for each in (*one.events, *one.faults, *one.relay_faults)]
    return "\n".join([*lines, f"renews {one.renews}, workers {one.builds}, relays {one.relays}"])
