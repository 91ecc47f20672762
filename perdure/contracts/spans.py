"""The longest declared time: PostgreSQL, Temporal and Python can represent every instant that follows from it."""

from __future__ import annotations

from datetime import timedelta

from perdure.contracts.argument_types import check_types
from perdure.errors import DeclarationError

LONGEST = timedelta(days=36_500)
"""A hundred years: Temporal's durations end at 10,000 years, Python's calendar with the year 9999."""


def check_spans(whose: str, **spans: timedelta) -> None:
    """Refuse a time that is no timedelta, is negative, or longer than `LONGEST`.

    Args:
        whose: the declaration that has these times, for the message.
        spans: the times, by the names of their parameters.

    Raises:
        DeclarationError: one of them cannot be used; the message names it.
    """
    check_types(whose, timedelta, **spans)
    for name, span in spans.items():
        if not timedelta(0) <= span <= LONGEST:
            raise DeclarationError(f"{whose}: {name}={span} must be from 0 to {LONGEST.days} days")
