"""Names are looked up in few threads, each name once at a time; an error reaches each who has asked."""

from __future__ import annotations

import asyncio
import threading

from activities.http.names import Names


async def test_a_name_is_looked_up_once_for_all_who_ask_at_the_same_time() -> None:
    names, before = Names(), set(threading.enumerate())
    try:
        found = await asyncio.gather(*(names.resolve("localhost", 80) for _ in range(20)))
        assert {each["host"] for each in found[0]} & {"127.0.0.1", "::1"}
        assert all(each == found[0] for each in found)
        assert len(set(threading.enumerate()) - before) == 1
    finally:
        await names.close()


async def test_a_caller_that_gives_up_leaves_the_answer_to_the_others() -> None:
    names = Names()
    try:
        first, second = (asyncio.ensure_future(names.resolve("localhost", 80)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second
        missing = await asyncio.gather(*(names.resolve("page.invalid") for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in missing] == [type(missing[0])] * 3
        assert isinstance(missing[0], OSError)
    finally:
        await names.close()
