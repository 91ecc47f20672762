"""Tables that a benchmark writes into a page of the documentation, between two marks."""

from __future__ import annotations

import re


def replaced(page: str, name: str, table: str) -> str:
    """The page with `table` between `<!-- name -->` and `<!-- /name -->`.

    Raises:
        ValueError: the page has no such marks.
    """
    marks = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
    if not marks.search(page):
        raise ValueError(f"the page has no <!-- {name} --> and <!-- /{name} -->")
    return marks.sub(lambda _: f"\n{table}\n", page, count=1)
