"""The pages of the console, one module each, in the order of the menu."""

from __future__ import annotations

from perdure.console.page import Page
from perdure.console.pages import acting, audit, entity, findings, inbox, limits, listing, overview, rejected, workers

_MODULES = (overview, inbox, listing, entity, acting, rejected, findings, audit, limits, workers)
PAGES: list[Page] = [each for module in _MODULES for each in module.PAGES]
