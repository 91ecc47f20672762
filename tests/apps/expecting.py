"""Lifecycles that say which rows of the app should have one, each by a query of another kind."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Lifecycle, state
from perdure.contracts import AppRows

TABLE = """
    create table chore (id bigint primary key, body text, state text not null default 'pending', tenant text);
    create index chore_pending on chore (id) where state = 'pending';
"""
PENDING = (
    "select id, jsonb_build_object('body', body) as input, tenant from chore where state = 'pending' -- all of them"
)


class Place(StrEnum):
    """Whether it is wanted."""

    PENDING = "pending"
    CANCELLED = state("cancelled", cancelled=True)


class Chore(BaseModel):
    """What to do."""

    body: str


class _Chore(Lifecycle[Chore, Place]):
    """Waits until somebody ends it."""

    async def do_it(self, chore: Chore) -> None:
        """See the class."""
        await self.wait_for(lambda: False)


@workflow.defn(name="chore")
class Only(_Chore):
    """Does a chore."""

    @workflow.run
    async def run(self, chore: Chore) -> None:
        """See the base class."""
        await self.do_it(chore)


@workflow.defn(name="chore-a")
class First(_Chore):
    """Does a chore."""

    @workflow.run
    async def run(self, chore: Chore) -> None:
        """See the base class."""
        await self.do_it(chore)


@workflow.defn(name="chore-b")
class Second(_Chore):
    """Does a chore."""

    @workflow.run
    async def run(self, chore: Chore) -> None:
        """See the base class."""
        await self.do_it(chore)


@workflow.defn(name="chore-c")
class Third(_Chore):
    """Does a chore."""

    @workflow.run
    async def run(self, chore: Chore) -> None:
        """See the base class."""
        await self.do_it(chore)


def app_of(*queries: str) -> App:
    """An app that expects these rows: by one query for `chore`, by several for `chore-a`, `chore-b`, `chore-c`."""
    lifecycles: list[type[Lifecycle[Chore, Place]]] = [First, Second, Third] if len(queries) > 1 else [Only]
    for lifecycle, sql in zip(lifecycles, queries, strict=True):
        lifecycle.expects = AppRows(sql)
    return App(lifecycles, [])
