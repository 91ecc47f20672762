"""Temporal's Web UI, judged by its pixels: what an operator must read of a parked lifecycle stands on the first screen,
with a contrast of at least 4.5 (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, FloatRect, Locator, Page, ViewportSize

from infra.needs import is_needed
from perdure.servers.ports import free_port
from perdure.servers.temporal import TemporalServer
from tests.apps.contracts import Booking
from tests.apps.talking import Ring, app
from tests.deadline import DEADLINE, until
from tests.integration.console.chromium import chromium, why_no_chromium
from tests.integration.operations.acts import LOST, parked
from tests.world import World

pytestmark = pytest.mark.world(app)

SCREEN = ViewportSize(width=1280, height=760)
SAVED_QUERY = 'PerdureAttention IS NOT NULL AND ExecutionStatus = "Running"'
READABLE = 4.5
MUST_BE_READ = ("A person is needed.", "Find out at the other side whether", '"outcome": "not_done"', "perdure resolve")
"""On the page of one workflow: that somebody is needed, what to find out, the JSON to send, and the command."""
CONTRAST = """async ([picture, x, y, width, height]) => {
    const image = new Image();
    image.src = picture;
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext('2d');
    context.drawImage(image, -x, -y);
    const pixels = context.getImageData(0, 0, width, height).data;
    const count = new Map();
    for (let at = 0; at < pixels.length; at += 4) {
        const colour = [pixels[at], pixels[at + 1], pixels[at + 2]].join();
        count.set(colour, (count.get(colour) || 0) + 1);
    }
    const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = (colour) => {
        const [red, green, blue] = colour.split(',').map(Number).map(linear);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = luminance([...count].reduce((one, other) => (other[1] > one[1] ? other : one))[0]);
    const ratio = (other) => (Math.max(ground, other) + 0.05) / (Math.min(ground, other) + 0.05);
    return Math.max(...[...count.keys()].map(luminance).map(ratio));
}"""
"""The contrast of a part of a picture: of its most frequent colour, and the one that differs most from it."""


@pytest.fixture(scope="module")
def temporal() -> Iterator[TemporalServer]:
    """A dev server with its Web UI."""
    with TemporalServer(ui_port=free_port(), search_attributes={"PerdureAttention": "Keyword"}) as server:
        yield server


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    if missing := why_no_chromium():
        pytest.fail(missing) if is_needed("chromium") else pytest.skip(missing)
    async with chromium() as found:
        yield found


async def contrast(page: Page, part: Locator) -> float:
    """As it is on the screen.

    Raises:
        AssertionError: it is not on the first screen as a whole.
    """
    await part.wait_for()

    async def still() -> tuple[FloatRect, bytes] | None:
        box, picture = await part.bounding_box(), await page.screenshot()
        return (box, picture) if box is not None and box == await part.bounding_box() else None

    box, taken = await until(still, "it stands still")
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    seen = min(box["x"], box["y"]) >= 0 and right <= SCREEN["width"] and bottom <= SCREEN["height"]
    assert seen, f"not on the first screen: {part} {box}"
    picture = "data:image/png;base64," + base64.b64encode(taken).decode()
    blank = await page.context.new_page()
    try:
        rectangle = [round(box[each]) for each in ("x", "y", "width", "height")]
        return float(await blank.evaluate(CONTRAST, [picture, *rectangle]))
    finally:
        await blank.close()


async def looked_at(world: World, browser: Browser, colours: Any) -> dict[str, float]:
    """The contrast of all that must be read, with the list opened by the saved query, and one workflow from there."""
    context = await browser.new_context(viewport=SCREEN, color_scheme=colours)
    context.set_default_timeout(DEADLINE * 1000)
    page = await context.new_page()
    await page.goto(f"{world.temporal.ui_url}/namespaces/default/workflows?query={quote(SAVED_QUERY)}")
    name = page.get_by_role("link", name=f"{world.scope}:ring/a").first
    found = {"list": await contrast(page, name)}
    await name.click()
    await page.get_by_text("User Metadata").first.click()
    details = page.frame_locator("iframe").last
    for each in MUST_BE_READ:
        found[each] = await contrast(page, details.get_by_text(each).first)
    await context.close()
    return found


async def test_what_an_operator_must_read_is_on_the_first_screen_and_readable(world: World, browser: Browser) -> None:
    world.counterparty.replies_to = {"a": [LOST]}
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await parked(world)
        light = await looked_at(world, browser, "light")
        dark = await looked_at(world, browser, "dark")
    assert min(light.values()) >= READABLE, light
    assert dark.pop("list") >= READABLE
    # A known fault of Web UI 2.42, that of the dev server: it shows these in black on nearly black, and 2.55 does not.
    # When this fails, let dark be judged as light is, and take the sentence about it out of docs/operating.md.
    assert max(dark.values()) < READABLE, dark
