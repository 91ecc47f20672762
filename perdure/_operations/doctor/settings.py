"""Settings: each variable that begins with PERDURE_ is one that Perdure reads, or none that looks like one."""

from __future__ import annotations

import difflib
import os

from perdure._operations.doctor.check import Check, Site
from perdure.contracts.problems import Problem
from perdure.settings import Settings

_PREFIX = "PERDURE_"
_OTHERS = ("PERDURE_APP", "PERDURE_BY")
_ALIKE = 0.85


async def _look(site: Site) -> list[Problem]:
    known = [*(_PREFIX + name.upper() for name in Settings.model_fields), *_OTHERS]
    found = []
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in known:
            alike = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
            if alike and alike[0] not in os.environ:
                what = f"{name} is set, and no setting of Perdure's has that name: it has no effect"
                found.append(Problem(what, f"export {alike[0]}=... in place of {name}"))
    if site.config.keys is not None:
        found.append(
            Problem(
                "PERDURE_KEYS is set: root can read it in /proc", "perdure help encryption: PERDURE_KEYS_FILE", False
            )
        )
    return found


SETTINGS = Check("settings", (), _look)
