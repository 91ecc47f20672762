"""What is explored, and the bodies that let the other side play its effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure._workflow.lifecycle import Lifecycle
from perdure.app import App, contracts_of
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.steps import Step
from perdure.testing.exploring.workers import current_worker

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World

Act: TypeAlias = "Callable[[World, Any], Awaitable[None]]"
"""What a step does in the application's database, from its input."""


@dataclass(frozen=True)
class Subject:
    """One lifecycle, in each of its builds.

    Attributes:
        lifecycle: its name.
        builds: the app of each build, with bodies from `bodies_of`.
        receipts: for each effect, look-up and step, by its first name: what makes its receipt from its input.
        once: first names of effects that each entity may cause once at most, under whatever key.
        messages: signals that arrive at random: name and payload, or what makes it from the message's number.
        sends: how many messages people send to a lifecycle that waits for nothing else.
        secret: personal data in the input, which may be found in payloads only; None = there is none to be looked for.
        acts: for each step that does something in the application's database: that, from its input.
    """

    lifecycle: str
    builds: Mapping[int, App]
    receipts: Mapping[str, Callable[[Any], Any]]
    once: frozenset[str] = frozenset()
    messages: tuple[tuple[str, Any], ...] = ()
    sends: int = 4
    secret: str | None = None
    acts: Mapping[str, Act] = field(default_factory=dict)

    @property
    def confirms_at_random(self) -> bool:
        """Whether a message may confirm what was not done: those of an author come at random moments."""
        return bool(self.messages) and self.secret is None

    def app_with(self, lifecycle: str) -> App:
        """The first build that has a lifecycle."""
        return next(app for _, app in sorted(self.builds.items()) if lifecycle in app.lifecycles)


def bodies_of(lifecycle: type[Lifecycle[Any, Any]]) -> list[Any]:
    """Bodies of all contracts of a lifecycle, played by the other side of the world in which they are called."""
    return [_body(contract) for contract in contracts_of(lifecycle)]


def _body(contract: Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]) -> Any:
    async def body(given: Any, about: Any) -> Any:
        return await current_worker.get().world.other_side.call(contract, given, about)

    if isinstance(contract, Effect):
        return contract.performs(body)
    return contract.answers(body) if isinstance(contract, Lookup) else contract.takes(body)
