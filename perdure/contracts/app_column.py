"""`AppColumn`: the column of the app's own table that shows the state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppColumn:
    """A column of the app's own table that shows the lifecycle's state.

    Until the run enters a state, it has what the app wrote. A restart shows the first state, once it is delivered.
    Several lifecycles may have the same column, if no row belongs to two of them: two entities with the same id would
    overwrite each other's state there.

    Args:
        table: name of the table, with its schema if the schema is not on the search path.
        column: the column that holds the state; text, varchar or an enum.
        key: the column that holds the entity id; any type that PostgreSQL can read from text. A plain table has a
            unique index on it alone.

    Example:
        >>> AppColumn("orders", column="status").key
        'id'
    """

    table: str
    column: str
    key: str = "id"
