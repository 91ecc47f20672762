"""The app `alarmed`, for a worker process that reads its gauges and looks around often, and reconciles at once."""

from __future__ import annotations

from perdure._reconcile import trigger, watch
from perdure._services import gauges
from tests.apps.alarmed import app as app

OFTEN = 0.2

watch.EVERY = gauges.EVERY = OFTEN
trigger.FIRST = 0.0, OFTEN
