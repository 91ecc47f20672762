"""The pages of the console, one module each, in the order of the menu."""

from __future__ import annotations

from perdure.console.page import Page
from perdure.console.pages import (
    acting,
    acting_on_many,
    audit,
    entity,
    findings,
    inbox,
    jobs,
    limits,
    listing,
    overview,
    rejected,
    workers,
)

_MODULES = (overview, inbox, listing, entity, acting, acting_on_many, jobs, rejected, findings, audit, limits, workers)
PAGES: list[Page] = [each for module in _MODULES for each in module.PAGES]
