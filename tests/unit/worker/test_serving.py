"""The small HTTP server of health and metrics answers its supervisor, whoever else sends slowly."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from perdure._worker import serving
from perdure._worker.serving import Page
from perdure.servers.ports import free_port


def test_the_newest_request_is_answered_and_the_slowest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", None)  # nobody is dropped for being slow alone
    monkeypatch.setattr(serving, "_MOST", 3)
    port = free_port()
    with serving.serving("X", f"127.0.0.1:{port}", {"/live": lambda: Page("yes\n")}), ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        for each in slow:
            each.sendall(b"GET /live HTTP/1.0\r\nX: ")
        with urlopen(f"http://127.0.0.1:{port}/live") as answer:
            assert (answer.status, answer.read()) == (200, b"yes\n")
            assert "Python" not in answer.headers["Server"]
        assert slow[0].recv(1) == b"", "the slowest has given way"
        slow[-1].sendall(b"y\r\n\r\n")
        assert slow[-1].recv(12) == b"HTTP/1.0 200"
