"""Every crash point of a lifecycle: it is run once to learn its points, then once for each, dying or cut off there.

The pytest fixture `crash_points` (perdure/testing/plugin.py) is the way in; `prove` is the same without pytest.
"""

from __future__ import annotations

from perdure.testing.crashing.case import Way
from perdure.testing.crashing.proof import CrashPointsFailed, Proof, Servers, prove

__all__ = ["CrashPointsFailed", "Proof", "Servers", "Way", "prove"]
