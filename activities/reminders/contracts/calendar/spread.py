"""The delay of a dose after its due time, so that not all doses of 08:00 are sent at once."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from activities.reminders.contracts.plan import Due, Rule

_MICROSECOND = timedelta(microseconds=1)


def spread_of(patient: str, rule: Rule, due: Due) -> timedelta:
    """From 0 to before the rule's `spread`, evenly over patients and doses, and for one dose always the same.

    It is SHA-256 of the dose's id, so that every process, and every later release, finds the same.
    """
    seed = hashlib.sha256(f"{patient}/{due.rule}/{due.local:%Y-%m-%dT%H:%M}".encode()).digest()
    return _MICROSECOND * (int.from_bytes(seed[:8], "big") * (rule.spread // _MICROSECOND) >> 64)
