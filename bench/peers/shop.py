"""The code that all tools share: the client of the outside server, and the places where a process is killed.

It needs psycopg alone, because it runs in each tool's own environment.
"""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg

DSN = os.environ.get("SHOP_DATABASE_URL", "")
URL = os.environ.get("SHOP_URL", "")
SIDE = os.environ.get("SHOP_SIDE", "keeps")
"""How the outside server treats keys: it `keeps` them, `forgets` them after `WINDOW`, or has a `look-up` only."""
TIMEOUT = timedelta(seconds=5)
"""How long one attempt to charge may take, in every tool."""
WINDOW = timedelta(seconds=15)
"""For how long the server with the rule `forgets` keeps a key."""
LAG = timedelta(seconds=3)
"""How late the server with the rule `look-up` shows a charge."""

_PATIENCE = 600.0
_of_thread = threading.local()


@contextmanager
def transaction() -> Iterator[psycopg.Connection]:
    """One transaction in the application's database, on the thread's own connection."""
    if not hasattr(_of_thread, "connection"):
        _of_thread.connection = psycopg.connect(DSN, autocommit=True)
    with _of_thread.connection.transaction():
        yield _of_thread.connection


def at(place: str) -> None:
    """Name the place that this process has reached. The bench may hold the process there, and kill it."""
    _ask("POST", f"/at/{place}", timeout=_PATIENCE)


def charge(order: int, key: str) -> str:
    """Charge the card for an order; return the id of the charge."""
    at("before-request")
    reply = _ask("POST", "/charges", {"order": order}, {"Idempotency-Key": key}, timeout=TIMEOUT.total_seconds())
    at("after-reply")
    return str(reply["id"])


def find(order: int) -> str | None:
    """Look up the charge of an order, up to `LAG` behind; None if the server shows none."""
    try:
        return str(_ask("GET", f"/charges/{order}", timeout=TIMEOUT.total_seconds())["id"])
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None


def _ask(
    method: str, path: str, body: object = None, headers: dict[str, str] | None = None, *, timeout: float
) -> dict[str, Any]:
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
