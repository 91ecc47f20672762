"""Temporal's programs: nothing is used of an archive that is not the one that was expected."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from perdure.servers import temporal_programs
from perdure.servers.releases import download_programs
from perdure.servers.temporal_binary import TemporalMissingError
from perdure.servers.temporal_programs import SERVER, SQL_TOOL, VERSION, archive, obtain_programs

SCRIPT = f"#!/bin/sh\necho temporal version {VERSION}\n".encode()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A mirror with one release; its folder. There is no Go, and nothing on PATH or in the cache."""
    root = tmp_path / "mirror"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PERDURE_TEMPORAL_RELEASES", f"http://127.0.0.1:{server.server_address[1]}/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(temporal_programs, "_PINNED", {})
        folder = root / f"v{VERSION}"
        folder.mkdir(parents=True)
        publish(folder, {SERVER: SCRIPT, SQL_TOOL: SCRIPT})
        yield folder
        server.shutdown()


def publish(folder: Path, programs: dict[str, bytes], *, checksum: str = "") -> str:
    """Write an archive and the list of checksums; the checksum of the archive."""
    file = folder / archive().rpartition("/")[2]
    with tarfile.open(file, "w:gz") as content:
        for name, text in programs.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            content.addfile(info, io.BytesIO(text))
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "checksums.txt").write_text(f"{'0' * 64}  other.tar.gz\n{checksum or found}  {file.name}\n")
    return found


def test_a_release_is_downloaded_once_and_its_checksum_is_kept(releases: Path) -> None:
    found = obtain_programs()
    assert found.version == VERSION
    assert os.access(found.sql_tool, os.X_OK)
    assert archive().rpartition("/")[2] in (found.server.parent / "SHA256SUMS").read_text()
    (releases / "checksums.txt").unlink()
    assert obtain_programs() == found


@pytest.mark.parametrize("pinned", [False, True])
def test_a_release_whose_checksum_is_not_pinned_is_named_once(
    releases: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, pinned: bool
) -> None:
    checksum = publish(releases, {SERVER: SCRIPT, SQL_TOOL: SCRIPT})
    if pinned:
        monkeypatch.setenv("PERDURE_TEMPORAL_CHECKSUM", checksum)
    obtain_programs()
    obtain_programs()
    warned = [each.getMessage() for each in caplog.records]
    assert len(warned) == (not pinned)
    for part in (archive().rpartition("/")[2], checksum, "set PERDURE_TEMPORAL_CHECKSUM") if warned else ():
        assert part in warned[0]


@pytest.mark.parametrize("expected", ["set", "built in", "published"])
def test_an_archive_with_another_checksum_is_not_used(
    releases: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: str
) -> None:
    if expected == "set":
        monkeypatch.setenv("PERDURE_TEMPORAL_CHECKSUM", "a" * 64)
    elif expected == "built in":
        monkeypatch.setattr(temporal_programs, "_PINNED", {archive().rpartition("/")[2]: "a" * 64})
    else:
        publish(releases, {SERVER: SCRIPT, SQL_TOOL: SCRIPT}, checksum="a" * 64)
    with pytest.raises(TemporalMissingError, match=f"and not {'a' * 64}: nothing of it is used") as error:
        obtain_programs()
    for part in ("our cache: no", "no program 'go' on PATH", "PERDURE_TEMPORAL_BIN"):
        assert part in str(error.value)
    assert not (tmp_path / "cache" / "perdure" / f"temporal-{VERSION}").exists()


def test_an_archive_that_lacks_a_program_is_named(releases: Path) -> None:
    publish(releases, {SERVER: SCRIPT})
    with pytest.raises(TemporalMissingError, match=f"has no file '{SQL_TOOL}'"):
        obtain_programs()


def test_a_download_without_tls_must_have_its_checksum_set(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has no TLS, so its checksum must be set"):
        download_programs("http://mirror.example/a.tar.gz", [SERVER], tmp_path, sha256="", what="x")


def test_a_configured_folder_without_the_programs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TEMPORAL_BIN", str(tmp_path))
    with pytest.raises(TemporalMissingError, match=f"{tmp_path} has no program temporal-server and no temporal-sql"):
        obtain_programs()


def test_a_machine_without_an_archive_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="no archive for Linux on riscv64"):
        archive()


@pytest.mark.usefixtures("releases")
def test_a_mirror_that_is_no_url_is_named_among_the_ways_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TEMPORAL_RELEASES", "mirror.example/temporal")
    with pytest.raises(TemporalMissingError, match=r"mirror\.example/temporal/.* is no URL"):
        obtain_programs()
