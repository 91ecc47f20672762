"""A Temporal dev server that is started again when its SQLite is stuck.

On a busy machine, a query of the server's that takes too long is interrupted. Now and then SQLite stays so: it answers
each later query with *interrupted (9)*, until the server is started again.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from perdure.servers.temporal import TemporalServer

LOOK = 1.0
"""Seconds between two looks."""
LOOKS = 3
"""Looks in a row that find it stuck, after which it is started again."""

_log = logging.getLogger("perdure.servers")


@contextmanager
def healed(server: TemporalServer) -> Iterator[TemporalServer]:
    """Start `server`, which has a file, again when it is stuck, for as long as the context lasts."""
    over = Event()
    watch = Thread(target=_watch, args=(server, over), name="perdure healing", daemon=True)
    watch.start()
    try:
        yield server
    finally:
        over.set()
        watch.join()


def _watch(server: TemporalServer, over: Event) -> None:
    looks = 0
    while not over.wait(LOOK):
        looks = looks + 1 if server.running and server.interrupted() else 0
        if looks == LOOKS:
            _log.warning("the Temporal server at %s is stuck: it is started again", server.address)
            server.kill()  # its file survives that
            server.start()
            looks = 0
