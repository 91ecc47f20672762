"""`AppRows` declares which rows of the app's tables should have a lifecycle. The reconciliation starts those that have
none."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class AppRows:
    """A query for rows of the app that should have a lifecycle.

    Attributes:
        sql: one `select` with the columns `id`, `input` (jsonb, or null) and optionally `tenant`. It needs a partial
            index, or an index and a time bound: the reconciliation refuses a plan that reads a large table from end
            to end. Leave out the newest rows: the app may be about to start them.
    """

    sql: str

    def __post_init__(self) -> None:
        sql = self.sql.strip().rstrip(";").rstrip()
        if not sql:
            raise DeclarationError("AppRows needs a query: select id, to_jsonb(t) as input from ...")
        object.__setattr__(self, "sql", sql)
