"""The relay starts about as many lifecycles as the worker beside it takes, and never stops."""

from __future__ import annotations

from perdure._services.pace import FEWEST_STARTS, StartLimit


def test_a_relay_without_a_worker_has_no_limit() -> None:
    limit = StartLimit(50)
    assert limit.note([False] * 50)
    assert limit.most == 50


def test_a_full_worker_gets_as_many_as_it_took_last_and_more_when_it_takes_all() -> None:
    limit = StartLimit(50)
    assert limit.note([True] * 50)
    assert not limit.note([True] * 30 + [False] * 20)
    assert limit.most == 30
    assert limit.note([True] * 30)
    assert limit.most == 50


def test_some_are_started_even_while_the_worker_takes_none() -> None:
    limit = StartLimit(50)
    limit.note([True])
    for _ in range(10):
        assert not limit.note([False] * limit.most)
    assert limit.most == FEWEST_STARTS
    assert limit.note([])  # a batch of messages alone
