"""The order in Procrastinate. `procrastinate --app=bench.peers.with_procrastinate.app worker` runs it."""

from __future__ import annotations

from typing import Any

import procrastinate

from bench.peers import shop

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=shop.DSN))


@app.task(retry=procrastinate.RetryStrategy(max_attempts=10, wait=1))
def charge_order(order: int) -> None:
    """Charge the card, and write the state. The key is the same in each attempt."""
    found = shop.find(order) if shop.SIDE == "look-up" else None
    if found is None:
        shop.charge(order, f"order-{order}")
    shop.at("before-write")
    with shop.transaction() as connection:
        connection.execute("update orders set state = 'charged' where id = %s", [order])


@app.periodic(cron="* * * * *")
@app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
async def retry_stalled_jobs(context: Any, timestamp: int) -> None:
    """Retry the jobs of dead workers, as the guide on stalled jobs shows it, but each minute, not each ten."""
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


def take(number: int) -> None:
    """Commit the order with its job."""
    with shop.transaction() as connection:
        connection.execute("insert into orders (id) values (%s)", [number])
        charge_order.configure(connection=connection).defer(order=number)
    shop.at("after-commit")
