"""The folder `.perdure` outlives a crash, and shows nobody else a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure._dev.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder that was made."""
    made = Folder(tmp_path)
    made.path.mkdir()
    return made


def test_ports_stay_the_same(folder: Folder) -> None:
    assert folder.ports("postgres", "temporal") == folder.ports("postgres", "temporal")


@pytest.mark.parametrize("damaged", [b"", b'{"postgres": 54', b"[]", b'{"postgres": "x"}', b"\xff"])
def test_ports_whose_file_was_damaged_are_chosen_anew(folder: Folder, damaged: bytes) -> None:
    (folder.path / "ports.json").write_bytes(damaged)
    ports = folder.ports("postgres")
    assert folder.ports("postgres") == ports


def test_the_environment_with_the_password_is_the_owners_alone(folder: Folder) -> None:
    folder.environment.write_text("of an earlier release, and open to all")
    folder.environment.chmod(0o644)
    folder.write_environment({"PERDURE_DATABASE_URL": "postgresql://ann:secret@localhost/shop"})
    assert folder.environment.read_text() == "export PERDURE_DATABASE_URL=postgresql://ann:secret@localhost/shop\n"
    assert folder.environment.stat().st_mode & 0o777 == 0o600
