"""The order in Restate: a workflow with two steps. `python -m bench.peers.with_restate` runs it."""

from __future__ import annotations

import asyncio
import os
import urllib.request

import hypercorn.asyncio
import restate

from bench.peers import shop

orders = restate.Workflow("orders")


def charge_card(order: int) -> str:
    """Charge the card. The key is the same in each attempt."""
    found = shop.find(order) if shop.SIDE == "look-up" else None
    return found or shop.charge(order, f"order-{order}")


def mark_charged(order: int) -> None:
    """Write the state."""
    shop.at("before-write")
    with shop.transaction() as connection:
        connection.execute("update orders set state = 'charged' where id = %s", [order])


@orders.main()
async def run(context: restate.WorkflowContext, order: int) -> None:
    """Charges, then writes."""
    await context.run_typed("charge", charge_card, order=order)
    await context.run_typed("mark", mark_charged, order=order)


def take(number: int) -> None:
    """Commit the order, then start its workflow."""
    with shop.transaction() as connection:
        connection.execute("insert into orders (id) values (%s)", [number])
    shop.at("after-commit")
    url = f"{os.environ['RESTATE_INGRESS']}/orders/order-{number}/run/send"
    request = urllib.request.Request(url, str(number).encode(), {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=10).close()


def main() -> None:
    """Serve the workflow to Restate's server."""
    config = hypercorn.Config()
    config.bind = [os.environ["RESTATE_SERVICE"]]
    asyncio.run(hypercorn.asyncio.serve(restate.app([orders]), config))


if __name__ == "__main__":
    main()
