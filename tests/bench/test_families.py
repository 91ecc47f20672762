"""The benchmark of families on a few jobs: every job is done, each way, and it gives its figures."""

from __future__ import annotations

from dataclasses import astuple

from bench.families import compare


async def test_jobs_are_measured_one_by_one_and_as_children_at_the_same_time() -> None:
    found = await compare(5, window=2)
    for way, size in found.items():
        assert min(size.used.wall, size.used.cpu, *astuple(size.held)) > 0
        assert min(size.peak, size.temporal) > 10_000_000
        assert size.runs == (way == "children")
    assert found["children"].longest > 10
    assert 0 < found["children"].largest < 100_000
