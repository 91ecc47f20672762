"""The index of the decisions: `python -m infra.site.decisions` writes docs/decisions/README.md from their pages."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
_HEAD = "# Decisions\n\nEach page gives one decision, its reasons, its cost and the alternatives.\n\n"


def index() -> str:
    """Return the index: number, title and first sentence of each decision."""
    return _HEAD + "".join(f"{_line(page)}\n" for page in sorted(FOLDER.glob("[0-9]*.md")))


def _line(page: Path) -> str:
    head, _, text = page.read_text("utf-8").partition("\n")
    number, _, title = head.removeprefix("# ").partition(". ")
    _, marked, decision = text.partition("**Decision.** ")
    paragraph = (decision if marked else text.strip()).partition("\n\n")[0].removeprefix("- ")
    return f"- [{number}. {title}]({page.name}): {_first_sentence(' '.join(paragraph.split()))}"


def _first_sentence(text: str) -> str:
    """Up to the first full stop that is not inside code, a link or brackets."""
    for stop in re.finditer(r"[.:](?=\s|$)", text):
        begun = text[: stop.end() - 1]
        if begun.count("(") == begun.count(")") and begun.count("[") == begun.count("]") and begun.count("`") % 2 == 0:
            return f"{begun}."
    return text


if __name__ == "__main__":
    INDEX.write_text(index(), "utf-8")
