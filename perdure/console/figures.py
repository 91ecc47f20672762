"""Small pictures made on the server, as SVG without styles of their own: the style sheet has their colours."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_HEIGHT, _BAR = 20, 3


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
