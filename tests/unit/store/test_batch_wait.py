"""A write waits for others only where that pays: slow commits, many writes, and others that do come."""

from __future__ import annotations

from perdure._store.batch_wait import FEWEST_WRITES, LONGEST, SILENCE, BatchWait


def after(writes: int, every: float, *, commit: float) -> tuple[BatchWait, float]:
    """What it knows after so many writes at that distance, and the time."""
    batch_wait, now = BatchWait(), 100.0
    for _ in range(writes):
        now += every
        batch_wait.note_write(now)
        batch_wait.note_commit(commit)
    return batch_wait, now


def test_while_commits_are_fast_nothing_waits() -> None:
    batch_wait, now = after(1000, 0.001, commit=0.001)
    assert batch_wait.seconds(now) == 0


def test_a_write_that_would_stay_alone_goes_at_once() -> None:
    batch_wait, now = after(50, 0.1, commit=0.005)
    assert batch_wait.seconds(now) == 0


def test_many_writes_and_slow_commits_wait_for_each_other() -> None:
    batch_wait, now = after(200, 0.01, commit=0.006)
    assert 0.03 < batch_wait.seconds(now) < LONGEST


def test_no_write_waits_longer_than_the_longest_window() -> None:
    batch_wait, now = after(200, 0.01, commit=0.5)
    assert batch_wait.seconds(now) == LONGEST


def test_a_burst_is_forgotten_soon() -> None:
    batch_wait, now = after(200, 0.001, commit=0.006)
    assert batch_wait.seconds(now) > 0
    assert batch_wait.seconds(now + 5) == 0


def test_the_first_write_after_a_burst_goes_at_once() -> None:
    batch_wait, now = after(200, 0.001, commit=0.02)
    assert batch_wait.seconds(now + SILENCE) == LONGEST  # a write that came before the silence still waits
    batch_wait.note_write(now + SILENCE)
    assert batch_wait.seconds(now + SILENCE) == 0


def test_after_a_wait_in_vain_no_write_waits_for_longer_and_longer() -> None:
    """Four writers that wait for their own answers: nobody else can come."""
    batch_wait, now = after(500, 0.002, commit=0.006)
    breaks = []
    for _ in range(3):
        batch_wait.note_gain(0, now)
        began = now
        while not batch_wait.seconds(now):
            now += 0.01
            for _ in range(5):
                batch_wait.note_write(now)
        breaks.append(round(now - began))
    assert breaks == [1, 2, 4]


def test_writes_wait_on_while_waiting_gathers_others() -> None:
    batch_wait, now = after(200, 0.01, commit=0.006)
    batch_wait.note_gain(FEWEST_WRITES, now)
    assert batch_wait.seconds(now) > 0
