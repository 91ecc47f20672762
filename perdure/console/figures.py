"""Small pictures made on the server, as SVG without styles of their own: the style sheet has their colours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from perdure._text.shown import one_line

_HEIGHT, _BAR = 20, 3
_BOX, _GAP, _TALL, _LETTER = 26, 40, 30, 7.4
_MOST_WAYS = 24
"""Of a lifecycle with more ways between its states, only those that were taken are drawn."""


def spark(values: Sequence[int], label: str) -> Markup:
    """Bars, the newest on the right; the label is what a reader without eyes or with a pointer gets."""
    top = max(values, default=0)
    bars = [
        Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(number * _BAR, _HEIGHT - high, _BAR - 1, high)
        for number, value in enumerate(values)
        if value and (high := max(round(value / top * _HEIGHT), 1))
    ]
    width = len(values) * _BAR
    return Markup(
        '<svg class="spark" role="img" aria-label="{0}" viewBox="0 0 {1} {2}" width="{1}" height="{2}">'
        '<title>{0}</title><path d="M0 {3}H{1}" class="base"/>{4}</svg>'
    ).format(label, width, _HEIGHT, _HEIGHT - 0.5, Markup("").join(bars))


def bar(begins: float, took: float | None, span: float, kind: str) -> Markup:
    """Where something lies within a span of time, and how long it was; a tick where it was a moment."""
    left = round(min(max(begins / span, 0), 1) * 198, 1)
    width = 2.0 if took is None else round(min(max(took / span * 198, 1.5), 200 - left), 1)
    return Markup(
        '<svg class="bar is-{}" aria-hidden="true" viewBox="0 0 200 12" width="200" height="12">'
        '<path d="M0 6H200" class="base"/><rect x="{}" y="2" width="{}" height="8" rx="1"/></svg>'
    ).format(kind, left, width)


@dataclass(frozen=True, slots=True)
class Node:
    """A state as it is drawn.

    Attributes:
        marks: `final`, `attention`.
    """

    name: str
    marks: Collection[str] = ()
    leads_to: Sequence[str] = ()


def state_diagram(nodes: Sequence[Node], taken: Sequence[str], here: str) -> Markup:
    """The states in a row, in the order of their declaration; ways forward are arcs above it, ways back below.

    Args:
        taken: the states that it was in, in order.
        here: the one that it is in.
    """
    lefts: dict[str, tuple[float, float]] = {}
    x = 8.0
    for node in nodes:
        wide = max(len(one_line(node.name)) * _LETTER + _BOX, 56)
        lefts[node.name] = x, wide
        x += wide + _GAP
    order = list(lefts)
    went = {(a, b) for a, b in pairwise(taken) if a in lefts and b in lefts}
    ways = {(node.name, to) for node in nodes for to in node.leads_to if to in lefts} | went
    drawn = ways if len(ways) <= _MOST_WAYS else went
    far = max((order.index(b) - order.index(a) for a, b in drawn), default=1)
    near = max((order.index(a) - order.index(b) for a, b in drawn), default=0)
    top = 14 + max(far - 1, 0) * 15
    height = top + _TALL + 14 + max(near, 0) * 15
    arcs = [_arc(a, b, order, lefts, top, (a, b) in went) for a, b in sorted(drawn, key=lambda each: each in went)]
    boxes = [_box(node, *lefts[node.name], top, node.name in taken, node.name == here) for node in nodes]
    label = f"States: {' → '.join(map(one_line, taken)) or 'none yet'}; now {one_line(here)}"
    return Markup(
        '<svg class="states" role="img" aria-label="{0}" viewBox="0 0 {1} {2}" width="{1}" height="{2}">'
        "<title>{0}</title>{3}{4}</svg>"
    ).format(label, round(x - _GAP + 8), height, Markup("").join(arcs), Markup("").join(boxes))


def _arc(a: str, b: str, order: Sequence[str], lefts: dict[str, tuple[float, float]], top: int, went: bool) -> Markup:
    steps = order.index(b) - order.index(a)
    middle = top + _TALL / 2
    (from_x, from_wide), (to_x, to_wide) = lefts[a], lefts[b]
    if steps == 1:
        path = f"M{from_x + from_wide:.1f} {middle}H{to_x - 6:.1f}"
        head = f"M{to_x - 7:.1f} {middle - 4}l6 4l-6 4z"
    else:
        up = steps > 0
        edge = top if up else top + _TALL
        x1, x2 = from_x + from_wide * (0.72 if up else 0.28), to_x + to_wide * (0.28 if up else 0.72)
        bend = edge - (abs(steps) - 1) * 20 - 8 if up else edge + abs(steps) * 18
        path = f"M{x1:.1f} {edge}C{x1:.1f} {bend} {x2:.1f} {bend} {x2:.1f} {edge - 5 if up else edge + 5}"
        head = f"M{x2 - 4:.1f} {edge - 6}l4 6l4 -6z" if up else f"M{x2 - 4:.1f} {edge + 6}l4 -6l4 6z"
    return Markup('<g class="way{}"><path d="{}"/><path d="{}" class="head"/></g>').format(
        " went" if went else "", path, head
    )


def _box(node: Node, left: float, wide: float, top: int, been: bool, here: bool) -> Markup:
    kinds = ["box", *node.marks, *(["been"] if been else []), *(["here"] if here else [])]
    return Markup(
        '<g class="{}"><rect x="{}" y="{}" width="{}" height="{}" rx="{}"/>'
        '<text x="{}" y="{}" text-anchor="middle">{}</text></g>'
    ).format(
        " ".join(kinds),
        *(round(left, 1), top, round(wide, 1), _TALL, 15 if "final" in node.marks else 5),
        *(round(left + wide / 2, 1), top + 19.5, one_line(node.name)),
    )
