"""Our transactions a second while a commit takes 5 ms: what group commit is for.

Per second, and not per run: on a busy machine, writes come too rarely to wait for each other, so that each run has more
transactions, and each second has fewer.
"""

from __future__ import annotations

from bench.cost.life import living
from bench.cost.measure import Plan
from bench.cost.rig import Rig
from perdure.testing.proxy import proxied

COMMIT = 0.005
"""Seconds that each statement, and so each commit, of the worker takes longer: a proxy in front of PostgreSQL holds it
for half of them in each direction."""


async def transactions_behind_slow_commits(rig: Rig, way: str, server: str, plan: Plan) -> float:
    """Transactions of the worker process that wrote something, relay included, per second."""
    async with proxied(rig.postgres.port) as proxy:
        dsn = rig.dsn(way).replace(f":{rig.postgres.port}/", f":{proxy.port}/")
        async with living(rig, way, server, plan.settings, dsn=dsn) as life:
            proxy.delay(COMMIT / 2)
            await life.order("crowd", runs=plan.warm_up, in_flight=plan.in_flight)
            before = await rig.transactions()
            answer = await life.order("crowd", runs=plan.runs, in_flight=plan.in_flight)
            taken = await rig.transactions() - before
    # The app's own: one for each row that it commits, and one that empties its table at the beginning.
    return (taken - plan.runs - 1) / float(answer["seconds"])
