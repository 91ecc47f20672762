"""A port that a process was given is given to no other one, although nothing listens there."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.connection import Connection

import pytest

from perdure.servers import ports

FEW = 20


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only a server that listens has a port for itself")
def test_two_processes_are_never_given_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ports.free_port()
    monkeypatch.setattr(ports, "_LOWEST", first)
    monkeypatch.setattr(ports, "_HIGHEST", first + FEW)
    mine = {port for port in range(first, first + FEW // 2) if ports.take(port)}
    here, there = multiprocessing.Pipe()
    other = multiprocessing.get_context("spawn").Process(target=_takes, args=(there, first), daemon=True)
    other.start()
    there.close()
    assert not mine & set(here.recv()), "what this process keeps is free for no other one"
    assert all(ports.take(port) for port in mine), "a process may take once more what it keeps"

    here.send("end")
    other.join()


def _takes(end: Connection, first: int) -> None:
    ports._LOWEST, ports._HIGHEST = first, first + FEW
    end.send(_all_that_are_free())
    end.recv()


def _all_that_are_free() -> list[int]:
    taken = []
    try:
        while True:
            taken.append(ports.free_port())
    except OSError:
        return taken
