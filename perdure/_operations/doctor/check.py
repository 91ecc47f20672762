"""What a check is given, and what it gives."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from temporalio.client import Client

from perdure._store.postgres import Pool
from perdure.app import App
from perdure.contracts.problems import Problem
from perdure.settings import Settings

_COMMAND = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Site:
    """The installation.

    Attributes:
        app: None where none is named: then checks of it are left out.
        pool: connections to the app's database, as a worker opens them.
        temporal: None where no server answers.
    """

    config: Settings
    app: App | None
    pool: Pool | None
    temporal: Client | None

    @property
    def database(self) -> Pool:
        """For a check that needs it."""
        assert self.pool is not None
        return self.pool

    @property
    def client(self) -> Client:
        """For a check that needs it."""
        assert self.temporal is not None
        return self.temporal


class Needs(StrEnum):
    """What a check can't do without."""

    DATABASE = "PostgreSQL"
    SCHEMA = "the schema"
    TEMPORAL = "Temporal"
    APP = "--app"


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: as it is shown.
        needs: what it is left out without.
        look: gives what is wrong.
    """

    name: str
    needs: tuple[Needs, ...]
    look: Callable[[Site], Awaitable[list[Problem]]]


def problem_of(error: BaseException) -> Problem:
    """An error as a problem. Its remedy is the part in backticks, or the part after its last colon."""
    text = str(error) or type(error).__name__
    command = _COMMAND.search(text)
    what, colon, way = text.rpartition(": ")
    if command is not None:
        return Problem(text.replace("`", ""), command[1])
    return Problem(what, way) if colon and " " in way else Problem(text, "")
