"""An app with a lifespan, from which its bodies take what they share, and with commands of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

import typer
from temporalio import workflow

from perdure import App, AskFirst, Attempt, Done, Effect, InDoubt, Lifecycle, Lookup, LookupContext, Settings, state

FIND = Lookup[str, str]("find-shared")
USE = Effect[str, str](
    "use-shared", timeout=timedelta(seconds=5), doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=0.1))
)


@dataclass
class Shared:
    """What was opened for a worker."""

    scope: str | None
    used: list[str] = field(default_factory=list)
    closed: bool = False


OPENED: list[Shared] = []
"""One for each worker that ran in this process."""


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[Shared]:
    """Open what the bodies share."""
    shared = Shared(config.scope)
    OPENED.append(shared)
    yield shared
    shared.closed = True


@USE.performs
async def use(given: str, attempt: Attempt) -> str:
    """Say what it was given, and leave that in doubt."""
    shared: Shared = attempt.resources
    assert not shared.closed
    shared.used.append(f"used for {attempt.key}")
    raise InDoubt("the reply was lost")


@FIND.answers
async def find(given: str, question: LookupContext) -> str | None:
    """Find it where the other body left it."""
    shared: Shared = question.resources
    return next((each for each in shared.used if each.endswith(question.key)), None)


class Way(StrEnum):
    """Where it is."""

    NEW = "new"
    DONE = state("done", final=True)


@workflow.defn(name="sharing")
class Sharing(Lifecycle[str, Way]):
    """One effect that uses what is shared."""

    effects = (USE,)

    @workflow.run
    async def run(self, given: str) -> None:
        """Use it."""
        end = await self.perform(USE, given)
        assert isinstance(end, Done)
        await self.enter(Way.DONE, why=end.receipt)


commands = typer.Typer(help="What this application has to say.")


@commands.command()
def greet(name: str) -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")


@commands.command()
def part() -> None:
    """Say good-bye."""
    typer.echo("good-bye")


app = App([Sharing], [use, find], lifespan=lifespan, commands={"say": "tests.apps.commanding:commands"})
broken = App([Sharing], [use, find], commands={"say": "tests.apps.commanding:nothing"})
