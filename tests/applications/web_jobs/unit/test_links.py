"""The next page is found in each way in which RFC 8288 lets a server name it."""

from __future__ import annotations

import pytest

from activities.http.links import next_of


@pytest.mark.parametrize(
    ("headers", "target"),
    [
        (['</m>; rel="next"'], "/m"),
        (["</m>;rel=next"], "/m"),
        (["</m>;rel='next'"], "/m"),
        (['</m> ; rel = "next"'], "/m"),
        (['</m>; REL="Next"'], "/m"),
        (['</m>; rel="next last"'], "/m"),
        (['</s.css>; rel=preload; as=style, </m>; rel="next"'], "/m"),
        (["</s.css>; rel=preload; as=style", '</m>; rel="next"', '</n>; rel="next"'], "/m"),
        (['</m?a=1,2;b>; rel="next"; title="a, <b>; \\" rel=no"'], "/m?a=1,2;b"),
        (['</m>; title="</n>; rel=next, </o>"; rel=next'], "/m"),
        (['<http://[bad>; rel="next"'], "http://[bad"),
        (["<>; rel=next"], ""),
        (["/m; rel=next"], "/m"),
        (['</m>; rel="prefetch"; rel="next"'], None),
        (["</m>; rel=nextpage", "</m>; rel", "</m; rel=next", "", ",;,", "</m>"], None),
        (['</m>; title="never closed, </n>; rel=next'], None),
        ([], None),
    ],
)
def test_the_first_link_with_the_relation_next_is_the_next_page(headers: list[str], target: str | None) -> None:
    assert next_of(headers) == target
