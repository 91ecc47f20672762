"""`perdure up` takes no server of another program for its own, and no port that another program has."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure._machine.folder import Folder
from perdure._machine.listening import listens, until_free, until_listening
from perdure.errors import NotNow
from perdure.servers.ports import free_port
from perdure.servers.temporal_on_postgres import FRONTEND
from tests.deadline import in_time

SERVER = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server(("127.0.0.1", free_port())) as listening:
        yield listening.getsockname()[1]


async def test_a_server_of_another_program_is_not_taken_for_the_process_that_was_started(port: int) -> None:
    own = free_port()
    command = [sys.executable, "-c", SERVER, str(own)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as server:
        await in_time(until_listening(lambda: server.pid, own))
        assert not listens(server.pid, port)


async def test_a_port_on_which_another_program_listens_is_refused_and_named(port: int) -> None:
    reported: list[str] = []
    with pytest.raises(NotNow, match=rf"another program listens on port {port} .* --port"):
        await until_free(port, reported.append, patience=0.2)
    assert reported == [f"waits for port {port}, on which another program listens"]
    await until_free(free_port(), reported.append, patience=0)
    assert len(reported) == 1


def test_each_listener_has_a_port_of_its_own_whichever_one_clients_use(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    history = folder.ports(None)["HISTORY_GRPC_PORT"]
    ports = folder.ports(history)
    assert ports[FRONTEND] == history
    assert len(set(ports.values())) == len(ports)


def test_a_port_of_the_last_time_that_another_program_has_is_replaced_unless_clients_use_it(
    tmp_path: Path, port: int
) -> None:
    folder, taken = Folder(tmp_path), f'{{"HISTORY_GRPC_PORT": {port}, "{FRONTEND}": {port}}}'
    (tmp_path / "ports.json").write_text(taken)
    ports = folder.ports(None)
    assert (ports[FRONTEND], ports["HISTORY_GRPC_PORT"] != port) == (port, True)
