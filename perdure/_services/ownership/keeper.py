"""Keeps the database's mark outside the database, so that a copy or an older state of the database is recognised.

The keeper is one long-lived workflow for each namespace and scope. A worker proposes the next mark, writes it into the
database, and reports that with its next proposal. `KeeperState` has the state and the answers, and does no I/O.
"""

from __future__ import annotations

from temporalio import workflow

from perdure._wire.keeper import KeeperState, Proposal, Reply

_RENEW_AFTER = 100
"""Exchanges in one run. The worker that answers the next exchange replays all of them."""


def keeper_id(scope: str | None) -> str:
    """Workflow id of the keeper, which no lifecycle can have, and name of its own task queue."""
    return f"perdure-database:{scope}" if scope else "perdure-database"


@workflow.defn(name="perdure-database")
class Keeper:
    """Keeps the mark of one database."""

    @workflow.init
    def __init__(self, kept: KeeperState | None) -> None:
        self._kept = kept or KeeperState()
        self._exchanges = 0
        if kept is not None and workflow.info().continued_run_id is None:
            self._kept.begin_again(workflow.now())

    @workflow.run
    async def run(self, kept: KeeperState | None) -> None:
        """Continue as new after a number of exchanges."""
        await workflow.wait_condition(lambda: self._exchanges >= _RENEW_AFTER)
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._kept)

    @workflow.update
    def exchange(self, proposal: Proposal) -> Reply:
        """Answer a proposal of a worker."""
        self._exchanges += 1
        return self._kept.reply_to(proposal, workflow.now(), str(workflow.uuid4()))

    @workflow.query
    def kept(self) -> KeeperState:
        """The state of the keeper."""
        return self._kept
