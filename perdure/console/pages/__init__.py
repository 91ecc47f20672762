"""The pages of the console, one module each, in the order of the menu."""

from __future__ import annotations

from perdure.console.page import Page
from perdure.console.pages import acting, inbox, overview

PAGES: list[Page] = [each for module in (overview, inbox, acting) for each in module.PAGES]
