"""An app whose third worker process is kept from its start, as by a Temporal that does not answer in time."""

from __future__ import annotations

import os
from pathlib import Path

from tests.apps.bodies import app as app

if folder := os.environ.get("STARTS_IN"):  # set for workers alone
    starts = Path(folder)
    (starts / str(os.getpid())).touch()
    if len(list(starts.iterdir())) == 3:
        raise RuntimeError("Timeout expired")
