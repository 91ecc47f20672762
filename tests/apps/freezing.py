"""An app whose worker stands still for as long as a file says so: its follower alone, or its whole event loop.

What takes a minute elsewhere takes some seconds here, until it counts as a hang; `FREEZING_WITHIN` says how many. While
the file `hurry` is there, they are `HURRIED`, so that a process may start slowly before and after it.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from threading import Thread

from perdure import _pulse
from perdure._services import polling
from perdure._services.follower import Follower
from perdure._worker import processes, siblings
from tests.apps.bodies import app as app

FOLDER = Path(os.environ["FREEZING_FOLDER"])
"""Holds the files `follower`, `event loop` and `hurry`."""
HURRIED = 5.0

_once = Follower.once


async def _frozen(self: Follower) -> bool:
    while (FOLDER / "follower").exists():
        await asyncio.sleep(0.05)
    while (FOLDER / "event loop").exists():
        _hold_up_the_loop()
    return await _once(self)


def _hold_up_the_loop() -> None:
    time.sleep(0.05)


Follower.once = _frozen  # type: ignore[method-assign]


def _hurry() -> None:
    usual = _pulse.WITHIN
    while True:
        _pulse.WITHIN = HURRIED if (FOLDER / "hurry").exists() else usual
        time.sleep(0.05)


_pulse.WITHIN = float(os.environ.get("FREEZING_WITHIN", HURRIED))
Thread(target=_hurry, name="hurry", daemon=True).start()
polling.EVERY = 1.0
processes._LOOK, siblings._PATIENCE = 0.3, 2.0
