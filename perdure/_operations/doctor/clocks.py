"""Clocks: of this machine, PostgreSQL and Temporal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._services.queues import read_queue
from perdure.contracts.problems import Problem

MOST = timedelta(seconds=5)
_NTP = "timedatectl set-ntp true"


async def _look(site: Site) -> list[Problem]:
    before = datetime.now(UTC)
    database = await site.database.fetchval("select clock_timestamp()")
    after = datetime.now(UTC)
    found = []
    # The database read its clock somewhere between the two.
    off = max(database - after, before - database, timedelta(0))
    if off > MOST:
        what = f"the clocks of this machine and PostgreSQL differ by {off.total_seconds():.0f} s"
        found.append(Problem(what, f"{_NTP}, on both machines"))
    if site.temporal is not None:
        found += await _look_at_temporal(site, database)
    return found


async def _look_at_temporal(site: Site, now: datetime) -> list[Problem]:
    """Temporal reports no time except that of the last polls. A time in the future shows that its clock is ahead."""
    queue = await read_queue(site.client, site.config.queue, "workflow")
    polled = max(queue.pollers.values(), default=None)
    if polled is None or polled - now < MOST:
        return []
    what = f"the clock of Temporal is ahead of PostgreSQL's by {(polled - now).total_seconds():.0f} s or more"
    return [Problem(what, f"{_NTP}, on the machines of both")]


CLOCKS = Check("clocks", (Needs.DATABASE,), _look)
