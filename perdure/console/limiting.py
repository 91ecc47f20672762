"""How often somebody may ask: so many at once, and so many a minute."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_MOST = 10_000


@dataclass(slots=True)
class Rate:
    """A bucket for each name, which fills again in a minute.

    Attributes:
        per_minute: requests that one name may send.
    """

    per_minute: int
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, name: str) -> float:
        """Seconds until that name may ask; 0 = it may now, and has."""
        now = time.monotonic()
        left, at = self._buckets.pop(name, (float(self.per_minute), now))
        left = min(left + (now - at) * self.per_minute / 60, float(self.per_minute))
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left), now
        while len(self._buckets) > _MOST:  # the one that has not asked for longest
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if allowed else (1 - left) * 60 / self.per_minute


@dataclass(slots=True)
class Rates:
    """The rates of the console: what one address, and one person, may do in a minute."""

    requests: Rate = field(default_factory=lambda: Rate(600))
    sign_ins: Rate = field(default_factory=lambda: Rate(20))
    acts: Rate = field(default_factory=lambda: Rate(120))
