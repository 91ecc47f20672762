"""The order in DBOS: a step charges, a transaction writes. `python -m bench.peers.with_dbos` runs it."""

from __future__ import annotations

import threading
from functools import cache

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, SQLAlchemyDatasource

from bench.peers import shop

URL = shop.DSN.replace("postgresql:", "postgresql+psycopg:")
engine = sa.create_engine(URL)
datasource = SQLAlchemyDatasource.create(URL, engine=engine)


@DBOS.step(retries_allowed=True)
def charge_card(order: int) -> str:
    """Charge the card. The key is the same in each attempt."""
    found = shop.find(order) if shop.SIDE == "look-up" else None
    return found or shop.charge(order, f"order-{order}")


@datasource.transaction(isolation_level="READ COMMITTED")
def mark_charged(order: int) -> None:
    """Write the state. DBOS commits its checkpoint in the same transaction."""
    shop.at("before-write")
    datasource.sql_session().execute(sa.text("update orders set state = 'charged' where id = :id"), {"id": order})


@DBOS.workflow(name="order")
def order_workflow(order: int) -> None:
    """Charges, then writes."""
    charge_card(order)
    mark_charged(order)


@cache
def client() -> DBOSClient:
    """What enqueues."""
    return DBOSClient(system_database_engine=engine)


def take(number: int) -> None:
    """Commit the order with its workflow."""
    with engine.begin() as connection:
        connection.execute(sa.text("insert into orders (id) values (:id)"), {"id": number})
        options = {"queue_name": "orders", "workflow_name": "order", "workflow_id": f"order-{number}"}
        client().enqueue_in_transaction(connection, options, number)
    shop.at("after-commit")


def main() -> None:
    """Work. A start recovers the workflows that the last process left."""
    DBOS(config={"name": "orders", "system_database_url": URL})
    DBOS.launch()
    DBOS.register_queue("orders", worker_concurrency=20)
    threading.Event().wait()


if __name__ == "__main__":
    main()
