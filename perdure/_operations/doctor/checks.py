"""The checks, in the order in which they are made."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.service import RPCError

from perdure._operations.doctor.application import APPLICATION, OWN_CHECKS
from perdure._operations.doctor.binding import BINDING
from perdure._operations.doctor.certificates import CERTIFICATES
from perdure._operations.doctor.check import Check, Needs, Site, problem_of
from perdure._operations.doctor.clocks import CLOCKS
from perdure._operations.doctor.database_server import DATABASE_SERVER
from perdure._operations.doctor.database_tls import DATABASE_TLS
from perdure._operations.doctor.other_roles import OTHER_ROLES
from perdure._operations.doctor.pooler import POOLER
from perdure._operations.doctor.roles import ROLES
from perdure._operations.doctor.schema import SCHEMA
from perdure._operations.doctor.search_attributes import SEARCH_ATTRIBUTES
from perdure._operations.doctor.settings import SETTINGS
from perdure._operations.doctor.temporal_server import TEMPORAL_SERVER
from perdure._operations.doctor.temporal_tls import TEMPORAL_TLS
from perdure._store.connecting import DATABASE_ERRORS
from perdure.contracts.problems import Problem
from perdure.errors import PerdureError

CHECKS = [
    SETTINGS,
    DATABASE_SERVER,
    DATABASE_TLS,
    POOLER,
    SCHEMA,
    ROLES,
    OTHER_ROLES,
    TEMPORAL_SERVER,
    TEMPORAL_TLS,
    CERTIFICATES,
    SEARCH_ATTRIBUTES,
    BINDING,
    CLOCKS,
    APPLICATION,
    OWN_CHECKS,
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one check.

    Attributes:
        without: the missing part because of which the check was left out.
    """

    name: str
    problems: tuple[Problem, ...] = ()
    without: Needs | None = None

    @property
    def failed(self) -> bool:
        """Whether a worker can't work so, or should not."""
        return any(each.serious for each in self.problems)


async def examine(site: Site) -> list[Outcome]:
    """Make every check that can be made."""
    there = {Needs.DATABASE: site.pool, Needs.SCHEMA: site.pool, Needs.TEMPORAL: site.temporal, Needs.APP: site.app}
    missing = {each for each, thing in there.items() if thing is None}
    outcomes = []
    for check in CHECKS:
        outcome = await _made(check, site, missing)
        if check is SCHEMA and outcome.failed:
            missing.add(Needs.SCHEMA)
        outcomes.append(outcome)
    return outcomes


async def _made(check: Check, site: Site, missing: set[Needs]) -> Outcome:
    if without := next((each for each in check.needs if each in missing), None):
        return Outcome(check.name, without=without)
    try:
        return Outcome(check.name, tuple(await check.look(site)))
    except (PerdureError, RPCError, *DATABASE_ERRORS) as error:
        return Outcome(check.name, (problem_of(error),))
