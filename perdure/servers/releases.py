"""Programs out of an archive that a project publishes, which is downloaded and compared with its SHA-256 checksum."""

from __future__ import annotations

import hashlib
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from perdure.servers.progress import progress

_ANSWERS_WITHIN = 60.0  # seconds without a byte


def download_programs(address: str, names: Sequence[str], folder: Path, *, sha256: str, what: str) -> str:
    """Put the programs of an archive into a folder; the archive's checksum.

    Args:
        address: of the archive, a `.tar.gz`. The file `checksums.txt` beside it has its checksum.
        names: the files of the archive that are taken.
        folder: where they go. The archive's checksum is left there, as `SHA256SUMS`.
        sha256: the checksum that the archive must have; '' = the one in `checksums.txt`.
        what: for the progress line.

    Raises:
        OSError: the archive can't be had.
        RuntimeError: the address is no URL, or it is not the file that the checksum belongs to, or lacks a program.
    """
    name = address.rpartition("/")[2]
    if "://" not in address:
        raise RuntimeError(f"{address} is no URL: it begins with https://")
    if not sha256 and not _is_private(address):
        raise RuntimeError(f"{address} has no TLS, so its checksum must be set: nothing of it is used")
    expected = sha256.lower() or _published(f"{address.rpartition('/')[0]}/checksums.txt", name)
    archive = folder / name
    with progress(what):
        found = _download(address, archive)
    if found != expected:
        archive.unlink()
        raise RuntimeError(f"{address} has the SHA-256 checksum {found}, and not {expected}: nothing of it is used")
    _unpack(archive, names, folder)
    archive.unlink()
    (folder / "SHA256SUMS").write_text(f"{found}  {name}\n")
    return found


def _is_private(address: str) -> bool:
    """Whether nobody on the way can change what comes from there."""
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in ("127.0.0.1", "localhost", "::1")


def _published(address: str, name: str) -> str:
    """The checksum of a file, as `sha256sum` writes it into a list."""
    with urllib.request.urlopen(address, timeout=_ANSWERS_WITHIN) as answer:
        for line in answer.read().decode(errors="replace").splitlines():
            checksum, _, file = line.partition(" ")
            if file.strip(" *") == name:
                return str(checksum.lower())
    raise RuntimeError(f"{address} names no checksum of {name}")


def _download(address: str, target: Path) -> str:
    """The checksum of what was downloaded."""
    checksum = hashlib.sha256()
    with urllib.request.urlopen(address, timeout=_ANSWERS_WITHIN) as answer, target.open("wb") as file:
        while piece := answer.read(1 << 20):
            checksum.update(piece)
            file.write(piece)
    return checksum.hexdigest()


def _unpack(archive: Path, names: Sequence[str], folder: Path) -> None:
    with tarfile.open(archive) as content:
        for name in names:
            try:
                file = content.extractfile(name)
            except KeyError:
                file = None
            if file is None:
                raise RuntimeError(f"{archive.name} has no file {name!r}")
            (folder / name).write_bytes(file.read())
            (folder / name).chmod(0o755)
