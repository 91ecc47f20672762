"""A small vocabulary for drawings: boxes, arrows and labels, written as SVG that is readable in light and dark mode.

A drawing has a background of its own, so that it can be read where the page's mode is not the browser's.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["app", "database", "worker", "temporal", "other", "doubt", "plain"]
Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]

_LINE = 17
"""Pixels from one line of text to the next."""
_LIGHT = {"back": "#ffffff", "edge": "#d5dae1", "ink": "#1d2530", "quiet": "#566270", "line": "#76818f"}
_DARK = {"back": "#20242d", "edge": "#3b424f", "ink": "#e8ebf0", "quiet": "#a9b3c0", "line": "#8e99a8"}
_KINDS: dict[Kind, tuple[tuple[str, str], tuple[str, str]]] = {
    "app": (("#e7effd", "#3a6cd0"), ("#22335a", "#7ea5f2")),
    "database": (("#e5f4ea", "#2a8350"), ("#1d3d2b", "#66c18b")),
    "worker": (("#e4f3f6", "#1f7d90"), ("#1b3a42", "#62bccf")),
    "temporal": (("#f0e9fc", "#7651c4"), ("#362a55", "#b296ee")),
    "other": (("#fdf0df", "#b96a12"), ("#46321a", "#e0a45c")),
    "doubt": (("#fdeae8", "#c2382c"), ("#4d2523", "#f08a80")),
    "plain": (("#f3f5f8", "#76818f"), ("#2b313c", "#8e99a8")),
}


class Drawing:
    """Parts are drawn in the order of the calls.

    Args:
        title: one line that names the drawing for a reader of the screen.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, text: Sequence[str], kind: Kind = "plain") -> None:
        """A box with centred lines; the first one is bold."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>')
        top = y + height / 2 - (len(text) - 1) * _LINE / 2
        for number, line in enumerate(text):
            self.text(x + width / 2, top + number * _LINE + 5, line, bold=number == 0)

    def area(self, x: float, y: float, width: float, height: float, kind: Kind) -> None:
        """A box without text, for parts that are drawn upon it."""
        self.box(x, y, width, height, (), kind)

    def text(self, x: float, y: float, *lines: str, anchor: Anchor = "middle", bold: bool = False) -> None:
        """Lines of the main text; `y` is the base line of the first one."""
        self._lines(x, y, lines, anchor, "bold" if bold else "")

    def note(self, x: float, y: float, *lines: str, anchor: Anchor = "middle") -> None:
        """Quieter and smaller lines, as beside an arrow."""
        self._lines(x, y, lines, anchor, "note")

    def arrow(self, *points: Point, dashed: bool = False, kind: Kind | None = None) -> None:
        """A line through `points` with its head at the last one."""
        path = " L".join(f"{x} {y}" for x, y in points)
        classes = " ".join(["arrow", *([f"{kind}-line"] if kind else []), *(["dashed"] if dashed else [])])
        self._parts.append(f'<path class="{classes}" d="M{path}" marker-end="url(#{kind or "line"}-head)"/>')

    def line(self, *points: Point, dashed: bool = False) -> None:
        """A line without a head."""
        path = " L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="arrow{" dashed" if dashed else ""}" d="M{path}"/>')

    def number(self, x: float, y: float, number: int) -> None:
        """The number of a step, in a circle."""
        self._parts.append(f'<circle class="step" cx="{x}" cy="{y}" r="10"/>')
        self._lines(x, y + 4.5, [str(number)], "middle", "count")

    def dot(self, x: float, y: float) -> None:
        """A point of time."""
        self._parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="5.5"/>')

    def cross(self, x: float, y: float, size: float = 7) -> None:
        """The place of a kill, or something that is gone."""
        strokes = f"M{x - size} {y - size} L{x + size} {y + size} M{x + size} {y - size} L{x - size} {y + size}"
        self._parts.append(f'<path class="cross" d="{strokes}"/>')

    def svg(self) -> str:
        """The whole file."""
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        heads = "".join(_head(name) for name in ("line", *_KINDS))
        frame = f'<rect class="back" x="0.5" y="0.5" width="{self._width - 1}" height="{self._height - 1}" rx="9"/>'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<style>\n{_style(0)}\n@media (prefers-color-scheme: dark) {{\n{_style(1)}\n}}\n</style>",
                f"<defs>{heads}</defs>",
                frame,
                *self._parts,
                "</svg>\n",
            ]
        )

    def _lines(self, x: float, y: float, lines: Sequence[str], anchor: Anchor, classes: str) -> None:
        step = _LINE - 2 if classes == "note" else _LINE
        for number, line in enumerate(lines):
            named = f' class="{classes}"' if classes else ""
            place = f'x="{x}" y="{y + number * step}" text-anchor="{anchor}"'
            self._parts.append(f"<text{named} {place}>{escape(line)}</text>")


def _head(name: str) -> str:
    place = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"'
    return f'<marker id="{name}-head" {place}><path class="{name}-head" d="M0 0.5 L10 5 L0 9.5 z"/></marker>'


def _style(mode: Literal[0, 1]) -> str:
    """The rules of one mode: 0 is light, 1 is dark."""
    base = (_LIGHT, _DARK)[mode]
    rules = [
        f"text {{ font: 13.5px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: {base['ink']} }}",
        f".bold {{ font-weight: 650 }} .note {{ font-size: 12.5px; fill: {base['quiet']} }}",
        f".count {{ font-size: 12px; font-weight: 650; fill: {base['back']} }} .step {{ fill: {base['quiet']} }}",
        f".back {{ fill: {base['back']}; stroke: {base['edge']} }} .dot {{ fill: {base['ink']} }}",
        f".arrow {{ fill: none; stroke: {base['line']}; stroke-width: 1.6; stroke-linejoin: round }}",
        f".dashed {{ stroke-dasharray: 4 4 }} .line-head {{ fill: {base['line']} }}",
    ]
    for kind, modes in _KINDS.items():
        fill, stroke = modes[mode]
        rules.append(f".{kind} {{ fill: {fill}; stroke: {stroke}; stroke-width: 1.4 }}")
        rules.append(f".{kind}-line {{ stroke: {stroke} }} .{kind}-head {{ fill: {stroke} }}")
    red = _KINDS["doubt"][mode][1]
    rules.append(f".cross {{ fill: none; stroke: {red}; stroke-width: 3; stroke-linecap: round }}")
    return "\n".join(rules)
