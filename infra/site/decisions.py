"""The index of the decisions: `python -m infra.site.decisions` writes docs/decisions/README.md from their pages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
_HEAD = """# Decisions

Each page gives one decision, its reasons, its cost, and what was considered or would undo it. A number that is missing
belonged to a decision that is now part of another page.
"""
_APPLICATIONS = {28, 29, 30, 31, 35, 36}
"""Decisions of the applications in the repository."""


def index() -> str:
    """Return the index: number and title of each decision, those of the applications apart."""
    pages = {int(page.name[:4]): page for page in sorted(FOLDER.glob("[0-9]*.md"))}
    library = _lines(page for number, page in pages.items() if number not in _APPLICATIONS)
    applications = _lines(page for number, page in pages.items() if number in _APPLICATIONS)
    return f"{_HEAD}\n{library}\n## Of the applications\n\n{applications}"


def _lines(pages: Iterable[Path]) -> str:
    return "".join(f"- [{_title(page)}]({page.name})\n" for page in pages)


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


if __name__ == "__main__":
    INDEX.write_text(index(), "utf-8")
