"""The tutorial, word for word: its commands are typed, and what it shows is shown."""

from __future__ import annotations

from pathlib import Path

from infra import tutorial
from tests.deadline import until
from tests.developing import clean_environment, left


async def test_everything_is_as_the_page_shows_it(tmp_path: Path) -> None:
    tutorial.follow(tmp_path, clean_environment(), print, installed=True)
    await until(lambda: left(tmp_path) == [], "the end of all processes")
