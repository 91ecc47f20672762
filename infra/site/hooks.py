"""Hooks of MkDocs: the generated pages, links that leave docs/, and every page as Markdown beside its HTML."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError  # type: ignore[import-not-found]
from mkdocs.structure.files import File  # type: ignore[import-not-found]

from infra.site.reference import FOLDER, PAGES, api_text

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(((?!\w+:)[^()\s#]+)(?:#[^()\s]*)?\)")
_PICTURE = re.compile(r'(<img [^>]*src="([^"]+)"[^>]*>)')
_texts: dict[str, tuple[str, str]] = {}
"""Title and Markdown of each page, by its place under docs/."""


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages and the style sheet."""
    _texts.clear()
    for place, make in PAGES.items():
        files.append(File.generated(config, place, content=make()))
    style = Path(__file__).with_name("site.css")
    files.append(File.generated(config, style.name, content=style.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Keep the name of a file outside docs/ and drop the link to it: the site does not hold that file.

    Raises:
        PluginError: there is no such file.
    """
    place = page.file.src_uri
    if page.parent is None:
        page.meta["hide"] = ["navigation"]  # it would show this page alone

    def inside(link: re.Match[str]) -> str:
        target = os.path.normpath(Path("docs", place).parent / link[2])
        if target.startswith(f"docs{os.sep}"):
            return link[0]
        if not (ROOT / target).exists():
            raise PluginError(f"docs/{place}: the link {link[2]!r} leads to no file")
        return link[1]

    markdown = _LINK.sub(inside, markdown)
    text = api_text() if place == f"{FOLDER}/api.md" else markdown
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    _texts[place] = (title[1] if title else place, text)
    return markdown


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Let each picture lead to itself, so that a reader on a small screen can enlarge it."""
    return _PICTURE.sub(r'<a href="\2">\1</a>', html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the Markdown of the page in the head of its HTML."""
    link = f'<link rel="alternate" type="text/markdown" href="{Path(page.file.src_uri).name}">'
    return output.replace("</head>", f"{link}</head>", 1)


def on_post_build(config: Any) -> None:
    """Write the Markdown of every page, and the two files for language models, in the order of the navigation."""
    site = Path(config["site_dir"])
    for place, (_, text) in _texts.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(text, "utf-8")
    places = [each for each in _places(config["nav"]) if each in _texts]
    head = f"# {config['site_name']}\n\n> {config['site_description']}\n"
    lines = [f"- [{_texts[each][0]}]({each})" for each in places]
    (site / "llms.txt").write_text("\n".join([head, "## Pages\n", *lines, ""]), "utf-8")
    (site / "llms-full.txt").write_text("\n\n".join([head, *(_texts[each][1] for each in places)]), "utf-8")


def _places(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [place for each in (nav.values() if isinstance(nav, dict) else nav) for place in _places(each)]
