"""`perdure help`: the pages of the manual, as the installed release has them, and the help of each command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from perdure.cli.cli import RUN, cli
from perdure.cli.printing import print_line, refuse
from perdure.contracts.states import suggestion


def pages() -> dict[str, Path]:
    """The pages by their names. A wheel has them inside the package, a checkout beside it."""
    package = Path(__file__).parents[1]
    folder = next(each for each in (package / "_docs", package.parent / "docs") if each.is_dir())
    found = [each for pattern in ("*.md", "start/*.md", "runbook/*.md") for each in sorted(folder.glob(pattern))]
    return {each.parent.name if each.stem == "README" else each.stem: each for each in found}


@cli.command("help", epilog="Example: perdure help finding-months", rich_help_panel=RUN)
def show_page(
    topic: Annotated[
        str | None, typer.Argument(help="a page, such as effects, or a command; without it, all pages are listed")
    ] = None,
) -> None:
    """Show a page of the manual, or the help of a command and the pages that treat it."""
    known = pages()
    if topic is None:
        for name, file in known.items():
            print_line(f"{name:40}{_title(file)}")
        return
    if topic not in known:
        commands = typer.main.get_command(cli)
        if topic in getattr(commands, "commands", ()):
            commands.main([topic, "--help"], prog_name="perdure", standalone_mode=False)
            print_line(f"Pages: {', '.join(f'perdure help {each}' for each in _pages_about(topic, known))}")
            return
        refuse(f"no page is named {topic!r}{suggestion(topic, known)}", 2)
    console = Console()
    text = known[topic].read_text("utf-8")
    console.print(
        Markdown(text) if console.is_terminal else text, markup=False, emoji=False, highlight=False, soft_wrap=True
    )


def _pages_about(command: str, known: dict[str, Path]) -> list[str]:
    """The three pages that name a command most often."""
    named = re.compile(rf"(?:`|\$ )perdure {re.escape(command)}\b")
    counts = {name: len(named.findall(file.read_text("utf-8"))) for name, file in known.items()}
    return sorted(filter(counts.get, counts), key=lambda name: -counts[name])[:3]


def _title(file: Path) -> str:
    return file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
