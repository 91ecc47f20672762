"""What each part of a reconciliation is given: where to look, what is old enough, and where to say what was seen."""

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
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a part of a reconciliation works with.

    Attributes:
        pool: the app's database.
        temporal_client: of Temporal.
        app: whose lifecycles are looked at; what it does not know is another worker's.
        settings: scope, task queue.
        findings: where to say what was seen.
        younger_than: what was written since then, by the database's clock, is left alone.
        asked_since: begin of the last whole reconciliation less the grace time: what was written since then is asked
            of its workflow; None = everything is.
        by: who did it, as `transition.made_by` has it.
        only: look at this entity alone.
        beat: is told how far it is; a part that is begun again is given the last of these.
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
