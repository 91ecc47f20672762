"""Which entities somebody may see or act on: everything, or those of some lifecycles and tenants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reach:
    """A limit of what is read.

    Attributes:
        pairs: of lifecycle and tenant, of which one must fit; None in a pair = every one.
    """

    pairs: tuple[tuple[str | None, str | None], ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str | None, str | None]]) -> Reach:
        """These; a pair without limits is everything."""
        given = sorted(set(pairs), key=lambda pair: (pair[0] or "", pair[1] or ""))
        return EVERYTHING if (None, None) in given else cls(tuple(given))

    @property
    def is_everything(self) -> bool:
        """Whether it limits nothing."""
        return self == EVERYTHING

    def includes(self, lifecycle: str, tenant: str | None) -> bool:
        """Whether an entity is within it."""
        return any(one in (None, lifecycle) and of in (None, tenant) for one, of in self.pairs)

    def includes_whole(self, lifecycle: str) -> bool:
        """Whether all tenants of a lifecycle are within it."""
        return any(one in (None, lifecycle) and of is None for one, of in self.pairs)

    def includes_some(self, lifecycle: str) -> bool:
        """Whether at least one tenant of a lifecycle is within it."""
        return any(one in (None, lifecycle) for one, _ in self.pairs)

    @property
    def columns(self) -> tuple[list[str | None] | None, list[str | None] | None]:
        """The lifecycles and the tenants of its pairs, as arguments of a query; None twice where nothing is limited."""
        if self.is_everything:
            return None, None
        return [one for one, _ in self.pairs], [of for _, of in self.pairs]

    def sql(self, lifecycle: str, tenant: str, used: int) -> tuple[list[str], list[Any]]:
        """A condition on two columns, and its arguments; nothing where nothing is limited.

        Args:
            lifecycle, tenant: the columns.
            used: how many arguments the statement has already.
        """
        if self.is_everything:
            return [], []
        clause = (
            f"exists (select from unnest(${used + 1}::text[], ${used + 2}::text[]) as r (lifecycle, tenant) "
            f"where (r.lifecycle is null or r.lifecycle = {lifecycle}) and (r.tenant is null or r.tenant = {tenant}))"
        )
        return [clause], list(self.columns)


EVERYTHING = Reach(((None, None),))
"""No limit."""
