"""What attempts and look-ups of an effect in doubt came to. Temporal's history has it; the database has only how the
last attempt ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError

from perdure._operations.consequences import is_looked_up
from perdure._operations.doubts import Doubt
from perdure._operations.entity import Seen
from perdure._operations.history import History, Try
from perdure._operations.temporal import look
from perdure.app import App
from perdure.console.sources import Sources
from perdure.contracts.keys import Entity
from perdure.errors import PerdureError, TemporalUnavailable

PATIENCE = 5.0
"""Seconds that Temporal has for one of them."""
PAGE = 0.5
"""Seconds that a page waits for all of its own, which are asked for at the same time."""
_FRESH = 5.0
_WORDS = {"done": "found it", "miss": "did not find it", "unanswered": "gave no answer", "lost": "gave no answer"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one effect in doubt.

    Attributes:
        tries: its attempts and look-ups, the oldest first.
        problem: why they are not known.
        is_looked_up: whether its doubt policy has a look-up.
    """

    tries: Sequence[Try] = ()
    problem: str | None = None
    is_looked_up: bool = True

    @property
    def look_ups(self) -> list[Try]:
        """The look-ups alone."""
        return [each for each in self.tries if each.kind == "look-up"]


async def evidence(sources: Sources, doubts: Iterable[Doubt]) -> dict[str, Evidence]:
    """By key. Temporal is asked about those that are looked up."""
    meant = {each.key: each for each in doubts}
    found = dict.fromkeys(meant, Evidence(is_looked_up=False))
    asked = {key: each for key, each in meant.items() if is_looked_up(sources.app, each.effect)}
    client = await sources.temporal() if asked else None
    tasks = {key: asyncio.ensure_future(_evidence(sources, client, each)) for key, each in asked.items()}
    if tasks:
        await asyncio.wait(tasks.values(), timeout=PAGE)
    for task in tasks.values():
        task.cancel()  # what it waits for is read to the end, for the next page
    late = Evidence((), "Temporal is still being asked: load the page again")
    return found | {key: task.result() if task.done() and not task.cancelled() else late for key, task in tasks.items()}


def read_from(seen: Seen, doubt: Doubt, app: App | None) -> Evidence:
    """Of an effect whose entity was read already."""
    return Evidence(_of(doubt, seen.history), seen.problem, is_looked_up(app, doubt.effect))


async def _evidence(sources: Sources, client: Client | PerdureError | None, doubt: Doubt) -> Evidence:
    if not isinstance(client, Client):
        return Evidence((), str(client))

    async def read() -> Sequence[Try]:
        workflow_id = Entity(doubt.lifecycle, doubt.id, doubt.generation).workflow_id(sources.config.scope)
        try:
            _, history = await asyncio.wait_for(look(client, workflow_id), PATIENCE)
        except RPCError as error:
            raise TemporalUnavailable(f"Temporal did not answer: {error.message}") from error
        except TimeoutError as error:
            raise TemporalUnavailable(f"Temporal did not answer within {PATIENCE:g} s") from error
        return _of(doubt, history)

    try:
        seen = await sources.kept(("tries", doubt.key, doubt.attempts), read, fresh=_FRESH, stale=_FRESH)
    except TemporalUnavailable as error:
        return Evidence((), str(error))
    return Evidence(seen.value, seen.problem)


def _of(doubt: Doubt, history: History) -> Sequence[Try]:
    """Those of the newest generation and key: each begins with attempt 1."""
    tries = [each for each in history.tries if each.effect == doubt.effect]
    first = [at for at, each in enumerate(tries) if each.kind == "attempt" and each.number == 1]
    return tries[first[-1] :] if first else tries


def outcome(made: Try) -> str:
    """How one of them ended, in words."""
    words = _WORDS.get(made.outcome) if made.kind == "look-up" else None
    return (words or made.outcome.replace("_", " ")) + (f": {made.why}" if made.why else "")
