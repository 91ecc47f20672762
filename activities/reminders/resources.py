"""The resources that the bodies of dosage reminders share in a worker: the app's database, and telephony."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from activities.telephony.twilio.resources import Telephony
from activities.telephony.twilio.resources import lifespan as telephony_lifespan
from perdure import Settings, StepContext
from perdure.database import Pool, open_pool


@dataclass(frozen=True, slots=True)
class Reminders:
    """The `resources` of a body of dosage reminders.

    Attributes:
        pool: connections to the app's database, apart from perdure's own.
        telephony: the resources of telephony.
    """

    pool: Pool
    telephony: Telephony


def pool_of(given: StepContext) -> Pool:
    """Connections to the app's database."""
    resources: Any = given.resources
    assert isinstance(resources, Reminders), "App(lifespan=activities.reminders.resources.lifespan) is missing"
    return resources.pool


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[Reminders]:
    """Open it for one worker.

    Raises:
        InvalidSetting: something is not set, without which nothing can be sent.
    """
    async with (
        telephony_lifespan(config) as telephony,
        open_pool(config, "perdure reminders", command_timeout=5) as pool,
    ):
        yield Reminders(pool, telephony)
