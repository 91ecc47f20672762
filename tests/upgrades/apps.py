"""Editions as apps that a command can name."""

from __future__ import annotations

from tests.upgrades import calls, effects
from tests.upgrades.editions import edition

before = edition(effects.Escalating)
inserted = edition(calls.Inserted)
patched = edition(calls.Patched)
