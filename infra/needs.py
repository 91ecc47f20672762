"""What a machine must have: without it a test fails there, in place of being left out."""

import os

NEEDS = "PERDURE_TEST_NEEDS"
"""Names the programs, separated by commas: `postfix`, `prometheus`, `chromium`, `postgresql`."""


def is_needed(program: str) -> bool:
    """Whether a test may not be left out for want of it."""
    return program in os.environ.get(NEEDS, "").split(",")
