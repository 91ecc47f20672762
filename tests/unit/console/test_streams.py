"""A stream of a page ends with its person's session."""

from __future__ import annotations

import pytest

from perdure._operations.reach import EVERYTHING
from perdure.console import live
from perdure.console.live import Live
from perdure.console.sources import Sources
from perdure.settings import settings


async def test_a_stream_ends_at_sign_out_also_where_something_always_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT", 1e-9)
    streams = Live(Sources(settings(), None))

    async def still() -> bool:
        return False

    events = streams.events(EVERYTHING, still)
    assert "open" in await anext(events)
    for queue in streams._watches[EVERYTHING].streams:
        queue.put_nowait("changed")
    assert "signed-out" in await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
