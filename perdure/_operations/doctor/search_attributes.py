"""Search attributes: Temporal's lists can show which runs need a person."""

from __future__ import annotations

import shlex

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._services.indexing import lacking
from perdure._wire.indexed import KEYS
from perdure.contracts.problems import Problem


async def _look(site: Site) -> list[Problem]:
    missing = await lacking(site.client, KEYS[site.config.search_attributes])
    return [_problem(name, kind, site.client.namespace) for name, kind in missing.items()]


def _problem(name: str, kind: str, namespace: str) -> Problem:
    place = f"--namespace {shlex.quote(namespace)} --name {name}"
    make = f"temporal operator search-attribute create {place} --type Keyword"
    if kind:
        what = f"the search attribute {name} is a {kind}, and Perdure's is a Keyword"
        return Problem(what, f"temporal operator search-attribute remove {place} && {make}", serious=False)
    what = f"Temporal does not know the search attribute {name}: its lists don't show who needs a person"
    return Problem(what, make, serious=False)


SEARCH_ATTRIBUTES = Check("search attributes", (Needs.TEMPORAL,), _look)
