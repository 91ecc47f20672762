"""Editions as apps that a command can name."""

from __future__ import annotations

from tests.upgrades import effects, states
from tests.upgrades.editions import edition

before = edition(effects.Escalating)
inserted = edition(states.Inserted)
patched = edition(states.Patched)
