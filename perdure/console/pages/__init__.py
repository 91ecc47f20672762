"""The pages of the console, one module each, in the order of the menu."""

from __future__ import annotations

from perdure.console.page import Page
from perdure.console.pages import acting, entity, inbox, listing, overview

PAGES: list[Page] = [each for module in (overview, inbox, listing, entity, acting) for each in module.PAGES]
