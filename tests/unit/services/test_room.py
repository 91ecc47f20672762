"""The relay starts about as many lifecycles as the worker beside it takes, and never stops."""

from __future__ import annotations

from perdure._services.room import LEAST, Room


def test_a_relay_without_a_worker_has_no_limit() -> None:
    room = Room(50)
    assert room.note([False] * 50)
    assert room.starts == 50


def test_a_full_worker_gets_as_many_as_it_took_last_and_more_when_it_takes_all() -> None:
    room = Room(50)
    assert room.note([True] * 50)
    assert not room.note([True] * 30 + [False] * 20)
    assert room.starts == 30
    assert room.note([True] * 30)
    assert room.starts == 50


def test_some_are_started_even_while_the_worker_takes_none() -> None:
    room = Room(50)
    room.note([True])
    for _ in range(10):
        assert not room.note([False] * room.starts)
    assert room.starts == LEAST
    assert room.note([])  # a batch of messages alone
