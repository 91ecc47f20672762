"""The benchmark of families on a few jobs: every job is done, each way and of a size, and it gives its figures."""

from __future__ import annotations

from bench.families import ground


async def test_jobs_are_timed_one_by_one_and_as_children_and_a_family_is_sized() -> None:
    async with ground() as made:
        before = await made.held()
        alone = await made.round("one by one", "alone", 3, window=2)
        led = await made.round("children", "led", 5, window=2)
        runs, longest, largest = await made.histories("led")
        held, peaks = await made.held() - before, made.peaks()
    assert min(alone.wall, alone.cpu, led.wall, led.cpu) > 0
    assert (runs, longest > 10, 0 < largest < 100_000, min(peaks) > 10_000_000) == (1, True, True, True)
    assert min(held.rows, held.bytes, held.commits, held.wal) > 0
