"""What `perdure up` writes and reads: lines, versions, its folder, notifications, the unit of systemd."""

from __future__ import annotations

import asyncio
import configparser
import fcntl
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import Settings
from perdure._machine.folder import Folder
from perdure._machine.lines import Lines, json_line, plain_line
from perdure._machine.machine import Machine
from perdure._machine.readiness import sockets
from perdure._machine.systemd import unit
from perdure._machine.temporal import check_step, environment_of_server
from perdure._machine.tree import Tree, patience_of_all
from perdure._text.shown import UNSEEN
from perdure._worker.child import Child
from perdure._worker.notifying import READY, SOCKET, notify, notify_stopping, watchdog_interval
from perdure._worker.processes import WorkerProcess
from perdure.errors import InvalidSetting, NotNow, NotPermitted
from perdure.servers.ports import free_port
from perdure.servers.temporal_on_postgres import FRONTEND, ServerDatabase
from perdure.settings import settings
from tests.deadline import in_time, until
from tests.keeping import kept


@pytest.mark.parametrize(("before", "now"), [(None, "1.32.0"), ("1.31.2", "1.32.0"), ("1.32.0", "1.31.2"), ("", "x")])
def test_a_step_of_one_minor_version_is_made(before: str | None, now: str) -> None:
    check_step(before, now)


@pytest.mark.parametrize(("before", "now"), [("1.30.4", "1.32.0"), ("1.32.0", "1.30.4"), ("1.32.0", "2.0.0")])
def test_a_minor_version_that_is_skipped_is_refused(before: str, now: str) -> None:
    with pytest.raises(NotPermitted, match=f"{before}, and {now} is more than one minor version away"):
        check_step(before, now)


async def test_lines_name_their_process_whatever_their_form(capsys: pytest.CaptureFixture[str]) -> None:
    output = asyncio.StreamReader()
    output.feed_data(
        b'one\n{"level": "warn", "ts": "2030-01-01T12:00:01Z", "msg": "slow"}\n\xff \x1b[31mred' + b"x" * 9
    )
    output.feed_eof()
    await Lines(as_json=False).read("temporal", output)
    assert capsys.readouterr().err.splitlines() == [
        "temporal | one",
        "temporal | 12:00:01 warn slow",
        plain_line("temporal", "\ufffd \x1b[31mredxxxxxxxxx"),
    ]
    assert "\x1b" not in plain_line("a", "\x1b[31m")
    assert json.loads(json_line("a", '{"level": "info"}')) == {"process": "a", "level": "info"}
    hostile = "\x9b2J\u202egnp\u2028"
    assert not UNSEEN.search(json_line("a", hostile))
    assert json.loads(json_line("a", hostile))["message"] == hostile
    deep = '{"a":' * 10_000
    assert json.loads(json_line("a", deep))["message"] == deep
    assert json.loads(json_line("a", "[1]")) == {"process": "a", "message": "[1]"}


def test_a_folder_has_one_holder_and_keeps_ports_and_password_from_others(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "state")
    with folder.held():
        ports = folder.ports(free_port())
        with pytest.raises(NotNow, match="--state"), Folder(tmp_path / "state").held():
            pass
        assert Folder(tmp_path / "state").is_held()
        assert folder.ports(None) == ports
        assert folder.ports(1234) == {**ports, FRONTEND: 1234}
        assert len(set(ports.values())) == len(ports)
        assert folder.password() is None
        assert folder.make_password() == Folder(tmp_path / "state").password()
    assert not folder.is_held()
    assert [each.name for each in folder.path.iterdir() if each.stat().st_mode & 0o077 and each.name != "lock"] == []
    assert folder.path.stat().st_mode & 0o077 == 0


def test_a_look_at_what_runs_keeps_no_start_out(tmp_path: Path) -> None:
    """As in the guide: `perdure up ... & until perdure up status; do sleep 1; done`."""
    folder = Folder(tmp_path)
    with (tmp_path / "lock").open("a+") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.2, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with folder.held():
            assert folder.is_held()


def test_what_the_last_one_has_left_is_not_the_status_of_the_one_that_starts(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.held():
        folder.write_status({"ready": True})
        assert folder.status() == {"ready": True}
    with folder.held():
        assert folder.status() is None


@pytest.mark.parametrize("left", ["", "{", "[]"])
def test_a_file_that_a_crash_has_damaged_counts_as_missing(tmp_path: Path, left: str) -> None:
    for name in ("ports.json", "status.json"):
        (tmp_path / name).write_text(left)
    assert FRONTEND in Folder(tmp_path).ports(None)
    assert Folder(tmp_path).status() is None


def test_settings_of_temporal_that_the_operator_has_changed_stay_and_those_that_a_crash_has_emptied_do_not(
    tmp_path: Path,
) -> None:
    file = tmp_path / "dynamic-config.yaml"
    for before, after in (("mine", "mine"), ("", "system.namespaceCacheRefreshInterval")):
        file.write_text(before)
        environment_of_server(ServerDatabase("db", 5432, "temporal"), Folder(tmp_path).ports(None), tmp_path)
        assert after in file.read_text()


async def test_a_process_is_ready_when_it_notifies_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with sockets(1) as [readiness]:
        monkeypatch.setenv(SOCKET, readiness.address)
        notify(READY)  # of a predecessor
        waiting = asyncio.create_task(readiness.until_ready())
        await asyncio.sleep(0)
        notify_stopping(30)
        notify("STATUS=x")
        await asyncio.sleep(0)
        assert not waiting.done()
        notify("STATUS=y", READY)
        await in_time(waiting)
    notify(READY)  # nobody listens
    monkeypatch.delenv(SOCKET)
    notify(READY)


def test_a_process_that_stops_asks_for_the_time_that_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The unit may have been printed without the file in which the grace time is set."""
    monkeypatch.setenv(SOCKET, str(tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(os.environ[SOCKET])
        notify_stopping(patience_of_all(Settings(graceful_shutdown_timeout=300)))
        assert supervisor.recv(100) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=398000000"


@pytest.mark.parametrize(("pid", "interval"), [("", 15.0), ("own", 15.0), ("1", None)])
def test_the_watchdog_is_notified_twice_in_its_time(
    monkeypatch: pytest.MonkeyPatch, pid: str, interval: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", pid.replace("own", str(os.getpid())))
    assert watchdog_interval() == interval
    monkeypatch.delenv("WATCHDOG_USEC")
    assert watchdog_interval() is None


async def test_a_worker_has_no_password_of_a_role_that_makes_databases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shows.py").write_text("import os\n\nprint(sorted(os.environ), flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path.cwd()}")
    for name in ("PERDURE_ADMIN_DATABASE_URL", "PERDURE_TEMPORAL_DATABASE_URL", "WATCHDOG_PID", "OF_THE_APP"):
        monkeypatch.setenv(name, "postgresql://postgres:secret@127.0.0.1/")
    worker = WorkerProcess("shows:app", 1, settings(), read=Lines(as_json=False).read)
    async with kept(worker.child):
        await in_time(worker.child.failed_at_first.wait())  # the module has no app
    shown = capsys.readouterr().err
    assert "'OF_THE_APP'" in shown
    assert not [name for name in ("ADMIN_DATABASE_URL", "TEMPORAL_DATABASE_URL", "WATCHDOG") if name in shown]


async def test_a_child_that_can_not_be_started_is_tried_again_and_its_end_is_waited_for() -> None:
    tries = 0

    async def before() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("not yet")

    child = Child("one", [sys.executable, "-c", "input()"], dict(os.environ), before=before)
    async with kept(child):
        await until(lambda: child.state == "pausing", "the first try failed")
        assert (child.starts, child.pid) == (0, None)
        await until(lambda: child.state == "running", "the second try")
    assert (child.state, child.status, child.pid) == ("ended", -15, None)


def test_the_unit_of_systemd_can_be_read_and_quotes_the_command(tmp_path: Path) -> None:
    state = Path("/a b/100%")
    given = ["--state", str(state)]
    text = unit("shop.app:app", given, folder=tmp_path, state=state, user="shop", grace=10, stop=100)
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(text)
    service = parsed["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"] == f'{sys.executable} -m perdure.cli up shop.app:app --state "/a b/100%%"'
    assert service["ReadWritePaths"] == '"/a b/100%%"'  # all else is read-only
    assert service["KillMode"] == "mixed"
    assert (service["TimeoutStopSec"], service["User"]) == ("100", "shop")


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("/plain/é", "/plain/é"),
        ("100%", "100%%"),
        ("it's", '"it\'s"'),
        ('a "b"', '"a \\"b\\""'),
        ("a\\nb", '"a\\\\nb"'),
        ("$HOME", "$$HOME"),
        ("${HOME}", '"$${HOME}"'),
        ("", '""'),
        (";", '";"'),
    ],
)
def test_the_unit_of_systemd_gives_the_command_its_arguments_as_they_are(
    tmp_path: Path, argument: str, written: str
) -> None:
    text = unit("shop:app", ["--x", argument], folder=tmp_path, state=None, user="shop", grace=10, stop=100)
    assert f"perdure.cli up shop:app --x {written}\n" in text


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go on PATH")
def test_the_unit_of_systemd_lets_go_write_where_it_keeps_its_caches(tmp_path: Path) -> None:
    text = unit("shop:app", ["--web-ui"], folder=tmp_path, state=None, user="shop", grace=10, stop=100)
    lines = [line.removeprefix("Environment=") for line in text.splitlines() if line.startswith("Environment=")]
    given = dict(each.split("=", 1) for line in lines for each in line.split())
    environment = {"PATH": os.environ["PATH"], "HOME": "/home/shop", **given}
    asked = ["go", "env", "GOCACHE", "GOMODCACHE"]
    places = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout
    assert [Path(each).parent for each in places.split()] == [Path("/var/cache/perdure")] * 2


def test_the_unit_of_systemd_names_folders_as_they_are() -> None:
    folder, state = Path("/srv/a b%h$x"), Path("/a 'b\"c$d\\e")
    text = unit("shop:app", [], folder=folder, state=state, user="shop", grace=10, stop=100)
    assert "\nWorkingDirectory=/srv/a b%%h$x\n" in text
    assert '\nReadWritePaths="/a \'b\\"c$d\\\\e"\n' in text


def test_a_folder_that_others_can_write_into_is_refused_and_a_line_can_not_name_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InvalidSetting, match="others can write into it"), Folder(folder).held():
        pass
    assert not list(folder.iterdir())
    assert json.loads(json_line("worker-1", '{"process": "temporal", "message": "m"}'))["process"] == "worker-1"


class FullDisk(io.StringIO):
    """A file that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


async def test_a_process_is_read_on_while_the_disk_of_its_lines_is_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output, lines = asyncio.StreamReader(), Lines(as_json=False)
    output.feed_data(b"lost\n")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", FullDisk())
        reading = asyncio.create_task(lines.read("worker-1", output))
        await asyncio.sleep(0)
    output.feed_data(b"shown\n")
    output.feed_eof()
    await in_time(reading)
    assert capsys.readouterr().err == "worker-1 | shown\n"


async def test_a_disk_that_is_full_does_not_end_the_supervision() -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    child = Child("one", [sys.executable, "-c", "input()"], {}, changed=full)
    async with kept(child):
        await in_time(child.ready.wait())
        assert (child.state, child.starts) == ("running", 1)
    assert child.state == "ended"


async def test_a_disk_that_is_full_when_the_machine_reports_what_runs_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(folder: Folder, status: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "write_status", full)
    machine = Machine("shop:app", 0, Folder(tmp_path), "default", timedelta(days=1), trial=True)
    stop = asyncio.create_task(asyncio.sleep(0, result=True))
    await in_time(Tree(machine, settings()).run(stop))
    assert "can't write what runs" in caplog.text
