"""The context of each part of a reconciliation: connections, times, and the record of findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import temporalio.client

from perdure._reconcile.findings import Findings
from perdure._store.postgres import Pool
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.settings import Settings


def _silent(cursor: object) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one part of a reconciliation.

    Attributes:
        pool: the app's database.
        temporal_client: the client of Temporal.
        app: the app whose lifecycles are checked. Other lifecycles are left to other workers.
        settings: scope and task queue.
        findings: the record of findings.
        younger_than: time by the database's clock. Rows that were written since then are left alone.
        asked_since: begin of the last whole reconciliation less the grace time. Workflows that wrote since then are
            queried; None = all are.
        by: the author of changes, for `transition.made_by`.
        only: check this entity alone.
        beat: receives the progress. A part that is repeated gets the last progress.
    """

    pool: Pool
    temporal_client: temporalio.client.Client
    app: App
    settings: Settings
    findings: Findings
    younger_than: datetime
    asked_since: datetime | None = None
    by: str = "reconciliation"
    only: Entity | None = None
    beat: Callable[[object], None] = field(default=_silent)
