"""The header `Link` (RFC 8288, 3), of which one link is of use: the next page."""

from __future__ import annotations

from collections.abc import Iterable


def next_of(headers: Iterable[str]) -> str | None:
    """The target of the first link with the relation `next`, as it stands there; others need not be links at all.

    >>> next_of(['</m?page=3>; rel="Last", </m?page=2>; title="more, of it"; rel="next prefetch"'])
    '/m?page=2'
    """
    for header in headers:
        for link in _split(header, ","):
            target, *params = (each.strip() for each in _split(link, ";"))
            if "next" in _relations(params):
                return target.removeprefix("<").removesuffix(">").strip()
    return None


def _relations(params: Iterable[str]) -> list[str]:
    """Of the first `rel`: others do not count (3.3). Case does not matter (2.1.1)."""
    for each in params:
        name, _, value = each.partition("=")
        if name.strip().lower() == "rel":
            return value.strip().strip("\"'").lower().split()
    return []


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand neither in a quoted text nor between angle brackets."""
    parts, closing, escaped = [""], "", False
    for one in text:
        if one == separator and not closing:
            parts.append("")
            continue
        parts[-1] += one
        if escaped:
            escaped = False
        elif closing:
            escaped = one == "\\" and closing == '"'
            closing = "" if one == closing else closing
        else:
            closing = {'"': '"', "<": ">"}.get(one, "")
    return parts
