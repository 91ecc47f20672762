"""How long a transaction waits: for locks, for each of its statements, and for its client."""

from __future__ import annotations


def bounds(*, lock: str | None = None, statement: str | None = None, idle: str | None = None) -> str:
    """SQL that sets the bounds of the present transaction. A bound that is not given stays as in the session.

    Args:
        lock: in PostgreSQL's form, such as `15s`; `0` = no bound.
        statement: likewise.
        idle: how long the transaction may wait for its client, likewise.

    >>> bounds(lock="15s", statement="60s")
    "set local lock_timeout = '15s'; set local statement_timeout = '60s'"
    """
    given = {"lock_timeout": lock, "statement_timeout": statement, "idle_in_transaction_session_timeout": idle}
    return "; ".join(f"set local {name} = '{value}'" for name, value in given.items() if value is not None)
