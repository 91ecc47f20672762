"""The console in a real Chromium: each problem that a page has there is one line, whichever check has found it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from tests.deadline import DEADLINE, until
from tests.integration.console.browsing import ROLES, WHO, Site

PHONE = {"width": 360, "height": 740}
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_RULES = "{resultTypes: ['violations']}"
_CONTRAST = "{resultTypes: ['violations'], runOnly: ['color-contrast']}"
_TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def why_no_chromium() -> str | None:
    """One sentence that says what is missing to run one here; None if it can be run."""
    return None if _program() else "no Chromium here: install it (Debian: apt-get install chromium)"


def _program() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def _axe() -> str:
    """axe-core's text, as it came with its package."""
    found = find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("axe.min.js").read_text()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser."""
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=_program(), args=arguments, timeout=DEADLINE * 1000)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def window(
    browser: Browser, site: Site, person: str = "ann", roles: str = "look", **options: Any
) -> AsyncIterator[Window]:
    """A window of somebody, with cookies of its own."""
    context: BrowserContext = await browser.new_context(
        base_url=site.url, extra_http_headers={WHO: person, ROLES: roles}, **options
    )
    context.set_default_timeout(DEADLINE * 1000)
    try:
        yield Window(await context.new_page())
    finally:
        await context.close()


class Window:
    """A page that is open.

    Attributes:
        said: what the browser complained about, such as scripts that ran into an error and what its security policy
            refused.
    """

    def __init__(self, page: Page) -> None:
        self.page: Page = page
        self.said: list[str] = []
        page.on("console", self._complained)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))

    def _complained(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(message.text)

    async def text(self) -> str:
        """What a person reads."""
        return " ".join((await self.page.inner_text("body")).split())

    async def shows(self, what: str) -> None:
        """Wait until it does, without loading it again."""

        async def shown() -> bool:
            return what in await self.text()

        await until(shown, f"the page shows {what!r}", every=0.1)

    async def tab_to(self, words: str) -> None:
        """Press the tab key until the thing with these words has the focus."""
        name = (
            "(e => ((e.labels && e.labels[0] ? e.labels[0].innerText : '') || e.ariaLabel || e.innerText || ''))"
            "(document.activeElement)"
        )
        for _ in range(150):
            await self.page.keyboard.press("Tab")
            found = str(await self.page.evaluate(name)).strip()
            if found.startswith(words):
                return
        raise AssertionError(f"the tab key does not lead to {words!r} on {self.page.url}")

    async def problems(self, path: str) -> list[str]:
        """What is wrong with a page, in light and dark, at the width of this window."""
        self.said.clear()
        await self.page.emulate_media(color_scheme="light")
        answer = await self.page.goto(path)
        found = [] if answer is not None and answer.ok else [f"status {answer and answer.status}"]
        found += await self.violations()
        await self.page.emulate_media(color_scheme="dark")
        found += [f"dark: {each}" for each in await self._violations(_CONTRAST)]
        if wide := await self.page.evaluate(_TOO_WIDE):
            found.append(f"{wide} pixels wider than its window")
        return [f"{path}: {each}" for each in (*found, *self.said)]

    async def violations(self) -> list[str]:
        """Those of the rules of accessibility, on the page that is open."""
        await self.page.evaluate(_axe())
        return await self._violations(_RULES)

    async def _violations(self, options: str) -> list[str]:
        seen = json.loads(await self.page.evaluate(f"axe.run({options}).then(JSON.stringify)"))
        return [
            f"{each['id']}: {node['target']} {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for each in seen["violations"]
            for node in each["nodes"][:3]
        ]
