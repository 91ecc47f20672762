"""Runs a lifecycle once to learn its crash points, then again for each, with a killed worker or a broken connection.

The pytest fixture `crash_points` is in perdure/testing/plugin.py; `prove` is the same without pytest.
"""

from __future__ import annotations

from perdure.testing.crashing.case import Way
from perdure.testing.crashing.proof import CrashPointsFailed, Proof, Servers, prove

__all__ = ["CrashPointsFailed", "Proof", "Servers", "Way", "prove"]
