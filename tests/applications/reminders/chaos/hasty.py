"""The application with short durations, for a run of seconds. Only for a process that has not imported it yet."""

import sys
from datetime import timedelta

from activities.telephony import contracts as telephony
from perdure import RetryPolicy

assert "workflows.reminders.dose" not in sys.modules, "the lifecycles have taken the usual durations already"

_TIMEOUT, _EVERY = timedelta(seconds=1.5), timedelta(seconds=0.3)
# The provider accepts a request that it holds after the time-out. So the time-out and this delay together are longer
# than it holds one, by more than a busy machine lets a process stand still; otherwise a message is sent twice.
_SETTLE = timedelta(seconds=5)
_RETRY = RetryPolicy(initial_interval=timedelta(seconds=0.3), maximum_interval=timedelta(seconds=2))

telephony.SEND_SMS, telephony.FIND_SMS = telephony.sms_contracts(
    timeout=_TIMEOUT, visibility_delay=_SETTLE, every=_EVERY, retry=_RETRY
)
telephony.PLACE_CALL, telephony.FIND_PLACED_CALL = telephony.call_contracts(
    timeout=_TIMEOUT, visibility_delay=_SETTLE, every=_EVERY, retry=_RETRY
)

from workers.reminders.app import app  # noqa: E402

__all__ = ["app"]
