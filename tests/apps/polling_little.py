"""The bookings, by a worker that has few polls open at a time."""

from __future__ import annotations

from temporalio.worker import PollerBehaviorSimpleMaximum

from perdure._worker import worker
from tests.apps.bodies import app as app

# One for new runs, and one for those in its cache.
worker.POLLERS = PollerBehaviorSimpleMaximum(2)  # type: ignore[assignment]
worker.EFFECT_POLLERS = PollerBehaviorSimpleMaximum(1)  # type: ignore[assignment]
