"""Takes the pictures: starts the servers and a worker, brings orders into their states, and looks at them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import asyncpg
from playwright.async_api import async_playwright  # type: ignore[import-not-found,unused-ignore]

from infra.demos.served_console import ServedConsole
from infra.site.diagrams import FOLDER
from infra.site.screenshots.shop import PAYMENTS, Order, OrderLifecycle, app
from infra.site.screenshots.terminal import picture, printed
from infra.stack import ROOT, Stack
from perdure import Client, Settings
from perdure.console import Host, Person
from perdure.servers.ports import free_port


class Picture(NamedTuple):
    """What a command prints, in `columns` of a terminal."""

    name: str
    words: tuple[str, ...]
    columns: int


CHROMIUM = Path("/usr/bin/chromium")
APP = "infra.site.screenshots.shop:app"
ORDERS = range(1038, 1046)
PACKED = (1038, 1039, 1040)
UNANSWERED = (1042, 1045)
"""The payment server closes their connection without a reply."""
NEED_A_PERSON = 'PerdureAttention IS NOT NULL AND ExecutionStatus = "Running"'
SLOW = 1046
"""The payment server never answers it."""
CONSOLE: tuple[tuple[str, Literal["light", "dark"], str, int], ...] = (
    ("console-overview", "light", "", 540),
    ("console-inbox", "light", "inbox", 440),
    ("console-entity", "dark", "entity/order?id=1042", 720),
)
"""Name of the picture, colours, page of the console, and height."""
PICTURES = (
    Picture("perdure-status", ("status",), 96),
    Picture("perdure-doubts", ("doubts",), 138),
    Picture("perdure-show", ("show", "order", "1042"), 146),
)


async def take() -> None:
    """Write the pictures into docs/images."""
    folder = ROOT / "build" / "screenshots"
    shutil.rmtree(folder, ignore_errors=True)
    stack = Stack(folder, app=APP, tables=Path(__file__).with_name("shop.sql"), mail=False)
    port = free_port()
    payments = await asyncio.start_server(reply, "127.0.0.1", port)
    async with stack.up(), payments:
        worker = await stack.start_worker("worker", **{PAYMENTS: str(port)})
        async with asyncio.timeout(120):
            while b"search attributes are registered" not in worker.log.read_bytes():
                await asyncio.sleep(0.1)
        await place_orders(stack)
        environment = {**os.environ, **stack.environment(), "PERDURE_APP": APP}
        for name, words, columns in PICTURES:
            command = [sys.executable, "-m", "perdure.cli", *words]
            text = without_host(await asyncio.to_thread(printed, command, environment, columns))
            typed = f"perdure {' '.join(words)}"
            (FOLDER / f"{name}.svg").write_text(picture(typed, f"$ {typed}\n{text}", columns), "utf-8")
        await photograph(f"{stack.temporal.ui_url}/namespaces/default/workflows")
        await until_all_doubts_wait(stack)
        os.environ.update(stack.environment())
        await photograph_console(folder / "console", stack.temporal.ui_url)


def without_host(text: str) -> str:
    """Write a plain name in place of the identity of the worker, which holds the name of this machine."""
    return re.sub(rf"{re.escape(socket.gethostname())}\S*", lambda found: "worker-1".ljust(len(found[0])), text)


async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The payment server: it takes a line, and replies with the number of a charge."""
    number = int((await reader.readline()).split()[0])
    if number == SLOW:
        await reader.read()  # until the worker ends
    elif number not in UNANSWERED:
        writer.write(f"ch-{number}\n".encode())
        await writer.drain()
    writer.close()


async def place_orders(stack: Stack) -> None:
    """Commit the orders, pack some of them, and wait until each is where the pictures show it."""
    connection = await asyncpg.connect(stack.dsn)
    try:
        for number in ORDERS:
            await place(number, connection)
        async with connection.transaction():
            for number in PACKED:
                await Client().signal("order", number, "packed", connection=connection)
        reached = "select (select count(*) from perdure.finished), count(attention) from perdure.entity"
        await until(connection, reached, (len(PACKED), len(UNANSWERED)))
        await place(SLOW, connection)
        await until(connection, "select count(*) from perdure.effect where status = 'attempting'", (1,))
    finally:
        await connection.close()


async def place(number: int, connection: asyncpg.Connection) -> None:
    """Commit an order and the start of its lifecycle in one transaction."""
    async with connection.transaction():
        order = Order(number=number, cents=1000 + number)
        await connection.execute("insert into orders values ($1, $2, 'new')", order.number, order.cents)
        await Client().start(OrderLifecycle, number, order, connection=connection)


async def until(connection: asyncpg.Connection, query: str, expected: tuple[int, ...]) -> None:
    """Wait until `query` returns the expected row.

    Raises:
        TimeoutError: it did not within two minutes.
    """
    async with asyncio.timeout(120):
        while [tuple(row) for row in await connection.fetch(query)] != [expected]:
            await asyncio.sleep(0.2)


async def until_all_doubts_wait(stack: Stack) -> None:
    """Wait until the time of the slow charge is over, so that the pictures show as many doubts each time."""
    connection = await asyncpg.connect(stack.dsn)
    try:
        await until(connection, "select count(attention) from perdure.entity", (len(UNANSWERED) + 1,))
    finally:
        await connection.close()


async def photograph(workflows: str) -> None:
    """Take pictures of Temporal's Web UI: the list of those that need a person, and what one of them shows."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**browser_options())
        page = await browser.new_page(viewport={"width": 1280, "height": 760})
        await page.goto(f"{workflows}?query={quote(NEED_A_PERSON)}")
        await page.get_by_text("order/1042").first.wait_for()
        await page.screenshot(path=FOLDER / "web-ui-list.png")
        await page.get_by_text("order/1042").first.click()
        await page.get_by_text("User Metadata").first.click()
        await page.frame_locator("iframe").last.get_by_text("A person is needed").wait_for()
        await page.screenshot(path=FOLDER / "web-ui.png")
        await browser.close()


async def photograph_console(folder: Path, web_ui: str | None) -> None:
    """Take pictures of the console as somebody sees it who may settle."""
    ann = Person("ann", Person.granted("bulk"))
    served = ServedConsole(Settings(web_ui=web_ui), app, folder, Host(lambda request: ann))
    stop = asyncio.Event()
    serving = asyncio.create_task(served.run(stop.wait()))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**browser_options())
        for name, colours, path, height in CONSOLE:
            page = await browser.new_page(viewport={"width": 1100, "height": height}, color_scheme=colours)
            await page.goto(f"{served.url}{path}")
            await page.screenshot(path=FOLDER / f"{name}.png")
        await browser.close()
    stop.set()
    await serving


def browser_options() -> dict[str, Any]:
    """Debian's Chromium where it is installed, otherwise Playwright's."""
    if not CHROMIUM.exists():
        return {}
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox"] if os.geteuid() == 0 else []}


if __name__ == "__main__":
    asyncio.run(take())
