"""`Erasure` declares what else `perdure forget` erases with an entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perdure.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class Erasure:
    """Data outside of Perdure's tables that belongs to an entity. `perdure forget` erases it, or names its place.

    In each statement `$1` is the id of the entity, in the type that the statement needs. The statements run as the role
    in `PERDURE_ERASURE_DATABASE_URL`. Each may run several times.

    Attributes:
        entities: one `select` with the columns `lifecycle` and `id`: other entities that belong to this one, such as
            its children. They are erased with it, each by the declaration of its own lifecycle. None = there are none.
        rows: statements that delete or blank rows of the app, by the name of their table. They run in this order.
        elsewhere: one line for each further place that holds data of the entity. `perdure forget` prints these lines.

    Raises:
        DeclarationError: a statement is empty or does not use `$1`, or a line of `elsewhere` is empty.

    Example:
        ```python
        from perdure.contracts import Erasure

        erasure = Erasure(
            entities="select 'parcel' as lifecycle, id from shop.parcel where order_id = $1",
            rows={
                "shop.address": "delete from shop.address where order_id = $1",
                "shop.orders": "update shop.orders set name = null, street = null where id = $1",
            },
            elsewhere=["the payment provider keeps each charge for ten years"],
        )
        ```
    """

    entities: str | None = None
    rows: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.elsewhere, str):
            raise DeclarationError(f"Erasure(elsewhere={self.elsewhere!r}) is one text: give a list of lines")
        if not all(line.strip() for line in self.elsewhere):
            raise DeclarationError("Erasure(elsewhere=...) has an empty line: name the place and who erases it there")
        if self.entities is not None:
            object.__setattr__(self, "entities", _statement("entities", self.entities))
        object.__setattr__(
            self, "rows", {table: _statement(f"rows[{table!r}]", sql) for table, sql in self.rows.items()}
        )


def _statement(where: str, sql: str) -> str:
    sql = sql.strip().rstrip(";").rstrip()
    if "$1" not in sql:
        raise DeclarationError(f"Erasure: {where} is {sql!r}: it needs $1, the id of the entity")
    return sql
