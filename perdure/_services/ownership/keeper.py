"""Keeps, outside the app's database, the mark that the database has: so a copy of it, or an older state of it, is told.

One long-lived workflow for each namespace and scope. A worker proposes the next mark, writes it into the database, and
says so with its next proposal. What is known and what is answered is in `Kept`, which does no I/O.
"""

from __future__ import annotations

from temporalio import workflow

from perdure._wire.keeper import Kept, Proposal, Reply

_RENEW_AFTER = 100
"""Exchanges in one run: whoever answers the next one replays them all."""


def keeper_id(scope: str | None) -> str:
    """Workflow id of the keeper, which is no lifecycle's, and the task queue that it has for itself."""
    return f"perdure-database:{scope}" if scope else "perdure-database"


@workflow.defn(name="perdure-database")
class Keeper:
    """Keeps the mark of one database, for ever."""

    @workflow.init
    def __init__(self, kept: Kept | None) -> None:
        self._kept = kept or Kept()
        self._heard = 0
        if kept is not None and workflow.info().continued_run_id is None:
            self._kept.begin_again(workflow.now())

    @workflow.run
    async def run(self, kept: Kept | None) -> None:
        """Go on in a new run now and then."""
        await workflow.wait_condition(lambda: self._heard >= _RENEW_AFTER)
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._kept)

    @workflow.update
    def exchange(self, said: Proposal) -> Reply:
        """Hear what a worker says, and answer."""
        self._heard += 1
        return self._kept.hear(said, workflow.now(), str(workflow.uuid4()))

    @workflow.query
    def kept(self) -> Kept:
        """What is known."""
        return self._kept
