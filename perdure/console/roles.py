"""Who a person is, and what that person may do: roles, each for everything, for a lifecycle or for a tenant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from perdure._operations.reach import EVERYTHING, Reach
from perdure._text.shown import one_line
from perdure.errors import InvalidSetting


class Role(StrEnum):
    """What somebody may do in the console.

    Attributes:
        LOOK: see every page, without payloads.
        PAYLOADS: see inputs, snapshots, messages and receipts, too; each look is on record.
        SETTLE: act on one entity.
        BULK: act on many at once.
        ADMINISTER: change what concerns everything, such as limits.

    Example:
        >>> Role("settle").includes(Role.LOOK)
        True
    """

    LOOK = "look"
    PAYLOADS = "payloads"
    SETTLE = "settle"
    BULK = "bulk"
    ADMINISTER = "administer"

    def includes(self, other: Role) -> bool:
        """Whether who has this role has the other one as well. Only `payloads` itself includes seeing payloads."""
        return other in _INCLUDED[self]


_INCLUDED: dict[Role, tuple[Role, ...]] = {
    Role.LOOK: (Role.LOOK,),
    Role.PAYLOADS: (Role.LOOK, Role.PAYLOADS),
    Role.SETTLE: (Role.LOOK, Role.SETTLE),
    Role.BULK: (Role.LOOK, Role.SETTLE, Role.BULK),
    Role.ADMINISTER: (Role.LOOK, Role.SETTLE, Role.BULK, Role.ADMINISTER),
}
LONGEST_NAME = 200
_FORM = re.compile(r"(?P<role>[a-z]+)(:(?P<lifecycle>[a-z][a-z0-9_-]{0,62}))?(@(?P<tenant>.+))?")


@dataclass(frozen=True, slots=True)
class Grant:
    """A role of a person.

    Attributes:
        lifecycle: for this one alone; None = for every one.
        tenant: for entities of this one alone; None = for every one.

    Example:
        >>> Grant.of("settle:order@acme")
        Grant(role=<Role.SETTLE: 'settle'>, lifecycle='order', tenant='acme')
    """

    role: Role
    lifecycle: str | None = None
    tenant: str | None = None

    @classmethod
    def of(cls, text: str) -> Grant:
        """From `ROLE`, `ROLE:LIFECYCLE`, `ROLE@TENANT` or `ROLE:LIFECYCLE@TENANT`.

        Raises:
            InvalidSetting: it is none of these.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None or found["role"] not in set(Role):
            roles = ", ".join(Role)
            raise InvalidSetting(f"{text!r} is no role: write one of {roles}; then :LIFECYCLE or @TENANT limits it")
        return cls(Role(found["role"]), found["lifecycle"], found["tenant"])

    def __str__(self) -> str:
        lifecycle = f":{self.lifecycle}" if self.lifecycle else ""
        return f"{self.role}{lifecycle}" + (f"@{self.tenant}" if self.tenant else "")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses the console.

    Attributes:
        name: stands on record beside each act, 1 to 200 characters.
        grants: what the person may do.

    Raises:
        InvalidSetting: the name can't stand on record.

    Example:
        >>> ann = Person("ann", Person.granted("settle:order", "look"))
        >>> ann.may(Role.SETTLE, "order"), ann.may(Role.SETTLE, "parcel"), ann.may(Role.LOOK, "parcel")
        (True, False, True)
    """

    name: str
    grants: tuple[Grant, ...]

    def __post_init__(self) -> None:
        if not usable(self.name):
            raise InvalidSetting(
                f"{self.name[:60]!r} can't be the name of a person: give 1 to {LONGEST_NAME} characters, all visible"
            )

    @staticmethod
    def granted(*texts: str) -> tuple[Grant, ...]:
        """Grants from their text, see `Grant.of`."""
        return tuple(Grant.of(each) for each in texts)

    def may(self, role: Role, lifecycle: str, tenant: str | None = None) -> bool:
        """Whether the person has the role for an entity."""
        return self.reach(role).includes(lifecycle, tenant)

    def may_somewhere(self, role: Role) -> bool:
        """Whether there may be an entity for which the person has the role."""
        return any(each.role.includes(role) for each in self.grants)

    def may_everywhere(self, role: Role) -> bool:
        """Whether the person has the role without limits."""
        return self.reach(role) == EVERYTHING

    def reach(self, role: Role) -> Reach:
        """The entities for which the person has the role."""
        return Reach.of((each.lifecycle, each.tenant) for each in self.grants if each.role.includes(role))


GROUP = "group:"
"""Before the name of a group, where something is granted."""


def usable(name: str) -> bool:
    """Whether it can stand on record as the name of a person."""
    return 0 < len(name) <= LONGEST_NAME and one_line(name) == name


def granted_to(name: str, groups: Iterable[str], granting: dict[str, tuple[Grant, ...]]) -> tuple[Grant, ...]:
    """What somebody is granted by name, by each group (`group:NAME`), and as everybody (`*`).

    A person who chose a name that reads as a group gets nothing by it.
    """
    own = () if name == "*" or name.startswith(GROUP) else (name,)
    found = [grant for key in (*own, *(GROUP + each for each in groups), "*") for grant in granting.get(key, ())]
    return tuple(dict.fromkeys(found))
