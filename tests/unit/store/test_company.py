"""A write waits for others only where that pays: slow commits, many writes, and others that do come."""

from __future__ import annotations

from perdure._store.company import COMPANY, LONGEST, Company


def after(writes: int, every: float, *, commit: float) -> tuple[Company, float]:
    """What it knows after so many writes at that distance, and the time."""
    company, now = Company(), 100.0
    for _ in range(writes):
        now += every
        company.arrived(now)
        company.committed(commit)
    return company, now


def test_while_commits_are_fast_nothing_waits() -> None:
    company, now = after(1000, 0.001, commit=0.001)
    assert company.worth(now) == 0


def test_a_write_that_would_stay_alone_goes_at_once() -> None:
    company, now = after(50, 0.1, commit=0.005)
    assert company.worth(now) == 0


def test_many_writes_and_slow_commits_wait_for_each_other() -> None:
    company, now = after(200, 0.01, commit=0.006)
    assert 0.03 < company.worth(now) < LONGEST


def test_nobody_waits_longer_than_the_longest_window() -> None:
    company, now = after(200, 0.01, commit=0.5)
    assert company.worth(now) == LONGEST


def test_a_burst_is_forgotten_soon() -> None:
    company, now = after(200, 0.001, commit=0.006)
    assert company.worth(now) > 0
    assert company.worth(now + 5) == 0


def test_where_waiting_brings_nobody_it_is_left_for_longer_and_longer() -> None:
    """Four writers that wait for their own answers: nobody else can come."""
    company, now = after(500, 0.002, commit=0.006)
    breaks = []
    for _ in range(3):
        company.brought(0, now)
        began = now
        while not company.worth(now):
            now += 0.01
            for _ in range(5):
                company.arrived(now)
        breaks.append(round(now - began))
    assert breaks == [1, 2, 4]


def test_where_waiting_brings_company_it_goes_on() -> None:
    company, now = after(200, 0.01, commit=0.006)
    company.brought(COMPANY, now)
    assert company.worth(now) > 0
