"""The longest declared time: PostgreSQL, Temporal and Python can represent every instant that follows from it."""

from __future__ import annotations

from datetime import timedelta

from perdure.errors import DeclarationError

LONGEST = timedelta(days=36_500)
"""A hundred years: Temporal's durations end at 10,000 years, Python's calendar with the year 9999."""


def check_spans(whose: str, **spans: timedelta | None) -> None:
    """Refuse a time that is negative, or longer than `LONGEST`; None = no time was given.

    Args:
        whose: the declaration that has these times, for the message.
        spans: the times, by the names of their parameters.

    Raises:
        DeclarationError: one of them cannot be used; the message names it.
    """
    for name, span in spans.items():
        if span is not None and not timedelta(0) <= span <= LONGEST:
            raise DeclarationError(f"{whose}: {name}={span} must be from 0 to {LONGEST.days} days")
