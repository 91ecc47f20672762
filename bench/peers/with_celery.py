"""The order in Celery, with Redis. `celery -A bench.peers.with_celery worker` runs it."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from bench.peers import shop

app = Celery("orders", broker=os.environ["REDIS_URL"])
if os.environ.get("CELERY_ACKS_LATE"):
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_transport_options={"visibility_timeout": 30},  # default: an hour; it must exceed the longest task
    )


@app.task(bind=True, max_retries=10, default_retry_delay=1)
def charge_order(self: Any, order: int) -> None:
    """Charge the card, and write the state. The key is the same in each attempt."""
    try:
        found = shop.find(order) if shop.SIDE == "look-up" else None
        if found is None:
            shop.charge(order, f"order-{order}")
    except OSError as error:
        raise self.retry(exc=error) from error
    shop.at("before-write")
    with shop.transaction() as connection:
        connection.execute("update orders set state = 'charged' where id = %s", [order])


def take(number: int) -> None:
    """Commit the order, then enqueue its task."""
    with shop.transaction() as connection:
        connection.execute("insert into orders (id) values (%s)", [number])
    shop.at("after-commit")
    charge_order.delay(number)
