"""Draws histories at random, by a seed, and makes one that is wrong shorter."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from tests.ages.steps import Step

ENTITIES = ("a", "b", "c/d~1")
_SETTLED = ("done", "not_done", "abandoned")
_SAID = ("done", "done", "not_done", "refused", "in_doubt")


def drawn(seed: int) -> list[Step]:
    """The history with that number."""
    luck = random.Random(seed)
    return [step for _ in range(luck.randint(8, 16)) for step in _some(luck)]


def _some(luck: random.Random) -> list[Step]:
    e = luck.choice(ENTITIES)
    which = luck.randrange(6)
    begun: list[Step] = (
        [["import_row", e]] if luck.random() < 0.2 else [["start", e, luck.random() < 0.7], ["begin", e]]
    )
    ending: list[Step] = [] if luck.random() < 0.4 else [["outcome", which, luck.choice(_SAID)]]
    life: list[Step] = [*begun, ["deliver", e], *ending, ["finish", e]]
    back = luck.randrange(3)
    archive: list[Step] = [["export", back], ["drop", back]]
    choices: list[tuple[int, list[Step]]] = [
        (9, life),
        (2, life[:-1]),
        (5, [["month"]]),
        (2, [["late", luck.choice([*life, _single(luck, e, which)])]]),
        (6, [_single(luck, e, which)]),
        (2, [["export", back]]),
        (3, archive),
        (2, [["export", back], _single(luck, e, which), ["drop", back]]),
        (1, [["drop", back]]),
        (1, [["drop", -back]] if back else []),
        (3, [["export", back], ["drop", back, luck.randrange(30)], _single(luck, e, which)]),
        (3, [["export", back], ["drop", back, luck.randrange(30), _single(luck, e, which)]]),
        (1, [["export", back, luck.randrange(12), _single(luck, e, which)], ["drop", back]]),
        (1, [["export", back, luck.randrange(12)]]),
        (2, [*life, ["month"], ["export", 0], ["drop", 0], ["restart", e, True]]),
        (2, [*life, ["month"], ["export", 0], ["late", _single(luck, e, which)], ["drop", 0]]),
        (1, [["tidy"]]),
        (1, [["reject", e], [luck.choice(("retry_rejected", "drop_rejected")), e]]),
    ]
    return luck.choices([steps for _, steps in choices], [weight for weight, _ in choices])[0]


def _single(luck: random.Random, e: str, which: int) -> Step:
    steps: list[Step] = [
        ["begin", e],
        ["outcome", which, luck.choice(_SAID)],
        ["lost", which],
        ["lookup_hint", which],
        ["move", e, luck.choice(("busy", "waiting"))],
        ["finish", e],
        *([["resolve", e, luck.choice(_SETTLED)]] * 4),
        ["restart", e, luck.random() < 0.7],
        ["restart", e, luck.random() < 0.7],
        ["signal", e],
        ["cancel", e],
        ["reject", e],
        ["retry_rejected", e],
        ["drop_rejected", e],
        ["forget", e],
        ["note", e],
        ["recover", e],
        ["need_person", e],
    ]
    return luck.choice(steps)


async def shorter(steps: list[Step], wrong: Callable[[list[Step]], Awaitable[str | None]]) -> list[Step]:
    """As few of the steps as show that something is wrong."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if await wrong(fewer) is not None:
                steps = fewer
            else:
                at += size
        size //= 2
    return steps
