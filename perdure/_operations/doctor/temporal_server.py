"""Temporal: its version."""

from __future__ import annotations

import re
from datetime import timedelta

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

from perdure._operations.doctor.check import Check, Needs, Site
from perdure.contracts.problems import Problem

OLDEST = (1, 28)
"""Pollers that follow the load; tested are 1.29 and later."""


async def _look(site: Site) -> list[Problem]:
    seen = await site.client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=timedelta(seconds=5))
    numbers = re.match(r"(\d+)\.(\d+)", seen.server_version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= OLDEST:
        return []
    oldest = ".".join(map(str, OLDEST))
    return [
        Problem(
            f"the Temporal server is {seen.server_version}, and workers need {oldest}", "upgrade the Temporal server"
        )
    ]


TEMPORAL_SERVER = Check("Temporal", (Needs.TEMPORAL,), _look)
