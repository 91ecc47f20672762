"""Stacked bars and columns, made on the server as SVG; the style sheet has the colours of their kinds.

The kinds are `well`, `bad`, `odd`, `doubt`, `quiet`, `open`, `waiting` and `soft`. A page with such a picture has the
numbers as text as well: the picture is one image for those who do not see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from perdure._text.shown import one_line

Part = tuple[str, int]
"""A kind, and how many."""

_WIDE, _COLUMN, _TALL, _SHADE = 240, 26, 150, 7


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `columns`.

    Attributes:
        name: below it.
        parts: from below to above.
        shade: the part of a strip below it that is filled, from 0 to 1.
    """

    name: str
    parts: Sequence[Part]
    shade: float = 0.0


def stack(parts: Sequence[Part], label: str, *, short: bool = False) -> Markup:
    """One bar, whose parts stand side by side.

    Args:
        label: for those who do not see it.
        short: a small one, as in a key, whose words stand beside it.
    """
    full = 12 if short else _WIDE
    total = max(sum(count for _, count in parts), 1)
    drawn, left = [], 0.0
    for kind, count in parts:
        wide = count / total * full
        if count:
            drawn.append(_rect(kind, left, 0, max(wide, 1), 12))
        left += wide
    if short:
        return Markup('<svg aria-hidden="true" viewBox="0 0 12 12" width="12" height="12">{}</svg>').format(
            Markup("").join(drawn)
        )
    return Markup(
        '<svg class="stack" role="img" aria-label="{0}" viewBox="0 0 {1} 12" width="{1}" height="12">'
        '<title>{0}</title><rect class="ground" x="0" y="0" width="{1}" height="12"/>{2}</svg>'
    ).format(one_line(label), full, Markup("").join(drawn))


def columns(given: Sequence[Column], label: str) -> Markup:
    """Columns side by side, with their names below, and between the two a strip of their shades."""
    top = max((sum(count for _, count in each.parts) for each in given), default=0)
    left, base = max(len(f"{top:,}") * 7 + 8, 24), _TALL + 10
    wide = left + len(given) * _COLUMN + 4
    drawn = [Markup("").join(_column(each, left + number * _COLUMN, base, top)) for number, each in enumerate(given)]
    scale = Markup(
        '<path class="base" d="M{0} {1}H{2}M{0} 10H{2}"/><text x="{3}" y="14" text-anchor="end">{4}</text>'
        '<text x="{3}" y="{5}" text-anchor="end">0</text>'
    ).format(left - 2, base + 0.5, wide, left - 6, f"{top:,}", base + 4)
    return Markup(
        '<svg class="columns-plot" role="img" aria-label="{0}" viewBox="0 0 {1} {2}" width="{1}" height="{2}">'
        "<title>{0}</title>{3}{4}</svg>"
    ).format(one_line(label), wide, base + _SHADE + 22, scale, Markup("").join(drawn))


def _column(column: Column, left: float, base: float, top: int) -> Iterator[Markup]:
    at = base
    for kind, count in column.parts:
        if count:
            high = max(count / top * _TALL, 1)
            at -= high
            yield _rect(kind, left + 2, at, _COLUMN - 4, high)
    if column.shade > 0:
        high = max(min(column.shade, 1) * _SHADE, 1)
        yield _rect("quiet", left, base + 2 + _SHADE - high, _COLUMN, high)
    yield Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
        left + _COLUMN / 2, base + _SHADE + 16, one_line(column.name)
    )


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="is-{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, *(round(each, 1) for each in (x, y, width, height))
    )
