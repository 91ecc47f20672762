"""Walk through the console as somebody who has never seen the code: `python -m bench.walk [--doubts 1000] [--keep]`.

Servers, a worker and a console of its own. Each other side has a statement of what it did, among other things. The
walk goes through the pages in Chromium, and uses nothing but them and the statements: it settles what the statement
lists as done, and the others as not done. Clicks and seconds are counted, and everything is judged afterwards at the
other sides. `--keep` makes the doubts, writes the statements into a folder, and leaves the walk to you.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from playwright.async_api import Page, async_playwright
from rich.console import Console
from rich.table import Table

from bench.polling import eventually
from bench.walk.app import KINDS, OtherSide
from bench.walk.site import judged, lines, parked

TRIES = 30
_NONE_WORKS = "select count(*) = 0 from perdure.entity where attention is null"
BY_ONE = 3
"""Of each kind that are settled one by one, for comparison."""


@dataclass
class Walked:
    """What one kind has taken."""

    doubts: int
    clicks: int = 0
    seconds: float = 0.0
    one_by_one: float = 0.0
    clicks_by_one: int = 0


class Walker:
    """A person at the pages, who counts."""

    def __init__(self, page: Page) -> None:
        self.page: Page = page
        self.clicks: int = 0

    async def click(self, selector: str) -> None:
        """One click."""
        self.clicks += 1
        await self.page.click(selector)

    async def group(self, lifecycle: str) -> None:
        """From the inbox to the doubts of a lifecycle; the inbox is loaded again where it is not shown at once."""
        link = f"a.button[href*='lifecycle={lifecycle}&']"
        for _ in range(TRIES):
            await self.page.goto("inbox")
            if await self.page.locator(link).count():
                return await self.click(link)
            await asyncio.sleep(2)
        raise SystemExit(f"the inbox shows no {lifecycle}: {await self.page.inner_text('main')}")

    async def answer(self, outcome: str, note: str) -> None:
        """Choose an answer, write a note, and settle."""
        await self.click(f"input[value={outcome}]")
        await self.page.fill("textarea[name=note]", note)
        await self.click("form.act button")

    async def ended(self) -> None:
        """Wait for the end of an act on many, and see what is left."""
        await self.page.wait_for_selector("a:has-text('What is left')", timeout=600_000)
        await self.click("a:has-text('What is left')")


async def walk(page: Page, lifecycle: str, side: OtherSide, doubts: int) -> Walked:
    """Settle all of one kind."""
    walker, walked, listed = Walker(page), Walked(doubts), lines(side)
    began = time.monotonic()
    await walker.group(lifecycle)
    await _by_one(walker, listed, lifecycle)
    walked.one_by_one, walked.clicks_by_one = time.monotonic() - began, walker.clicks
    await walker.group(lifecycle)
    await walker.click("summary:has-text('by a list')")
    await page.fill("textarea[name=list]", "\n".join(listed))
    await walker.click("button:has-text('ticked or listed')")
    await walker.answer("done", "it stands in their statement")
    await walker.ended()
    await walker.click("a.button:has-text('Settle all')")
    await walker.answer("not_done", "it does not stand in their statement")
    await walker.ended()
    assert "Nothing of this is in doubt any more" in await page.inner_text("main")
    walked.clicks, walked.seconds = walker.clicks - walked.clicks_by_one, time.monotonic() - began - walked.one_by_one
    return walked


async def _by_one(walker: Walker, listed: list[str], lifecycle: str) -> None:
    """The first ones, each by what its page shows, then on with *Next in this group*."""
    page = walker.page
    await walker.click("a.button:has-text('Settle…')")
    for _ in range(BY_ONE):
        shown = (await page.inner_text("main")).split()
        found = next((line for line in listed if line.partition("\t")[0] in shown), None)
        if found is not None and "\t" in found:
            await page.fill("textarea[name=receipt]", found.partition("\t")[2])
        await walker.answer("not_done" if found is None else "done", "as their statement has it")
        await walker.click("a.button:has-text('Next in this group')")


async def main(doubts: int, keep: bool) -> list[str]:
    """Print a table; returns what is wrong."""
    each = doubts // len(KINDS)
    async with parked(each) as (db, url):
        if keep:
            return await _kept(url)
        table = Table("kind", "doubts", "clicks", "seconds", f"{BY_ONE} one by one: clicks", "seconds")
        async with async_playwright() as playwright:
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
            page = await browser.new_page(base_url=url)
            page.set_default_timeout(120_000)
            for lifecycle, side in KINDS.items():
                walked = await walk(page, lifecycle, side, each)
                numbers = (walked.doubts, walked.clicks, f"{walked.seconds:.0f}")
                table.add_row(lifecycle, *map(str, numbers), str(walked.clicks_by_one), f"{walked.one_by_one:.0f}")
            await browser.close()
        await eventually(lambda: db.fetchval(_NONE_WORKS), "what was settled goes on", patience=3600, every=0.5)
        Console(width=100).print(table)
        return await judged(db)


async def _kept(url: str) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="perdure-walk-"))
    for lifecycle, side in KINDS.items():
        (folder / f"{lifecycle}.tsv").write_text("\n".join(lines(side)) + "\n")
    print(f"{url}  statements: {folder}  Ctrl-C ends it", flush=True)
    await asyncio.Event().wait()
    return []


def run(
    doubts: Annotated[int, typer.Option(help="How many, of all kinds.", min=15)] = 1000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the walk to you.")] = False,
) -> None:
    """Make the doubts, settle them, and judge."""
    wrong = asyncio.run(main(doubts, keep))
    for each in wrong:
        print(each)
    raise typer.Exit(bool(wrong))


if __name__ == "__main__":
    typer.run(run)
