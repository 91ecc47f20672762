"""Settings: each variable that begins with PERDURE_ is one that Perdure reads, or none that looks like one."""

from __future__ import annotations

import os

from perdure._operations.doctor.check import Check, Site
from perdure.contracts.problems import Problem
from perdure.settings import misspelt


async def _look(site: Site) -> list[Problem]:
    found = [
        Problem(
            f"{name} is set, and no setting of Perdure's has that name: it has no effect",
            f"export {meant}=... in place of {name}",
        )
        for name, meant in misspelt(os.environ).items()
    ]
    if site.config.keys is not None:
        found.append(
            Problem(
                "PERDURE_KEYS is set: root can read it in /proc", "perdure help encryption: PERDURE_KEYS_FILE", False
            )
        )
    return found


SETTINGS = Check("settings", (), _look)
