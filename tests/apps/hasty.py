"""Lifecycles whose reconciliations are soon missed when their worker is lost; one of them keeps a reconciliation where
it is."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import model_validator
from temporalio import workflow

from perdure import App, Lifecycle
from perdure._reconcile import entities
from perdure._reconcile import workflow as cleaning_workflow
from tests.apps.contracts import Booking
from tests.apps.failing import Stay

cleaning_workflow.HEARTBEAT = timedelta(seconds=2)
entities.PAGE = 1


class Sticky(Booking):
    """While the file STANDS_STILL is there, whoever reads this stands still, event loop and all."""

    @model_validator(mode="before")
    @classmethod
    def stand_still(cls, given: Any) -> Any:
        """For as long as the process lives."""
        flag = os.environ.get("STANDS_STILL")
        if flag and Path(flag).exists():
            Path(flag).with_suffix(".reached").touch()
            os.read(os.open(flag, os.O_RDONLY), 1)
        return given


@workflow.defn(name="sticky", sandboxed=False)
class Waits(Lifecycle[Sticky, Stay]):
    """Its input is sticky."""

    @workflow.run
    async def run(self, booking: Sticky) -> None:
        """Stay."""
        await self.wait_for(lambda: False)


app = App(lifecycles=[Waits], effects=[])
