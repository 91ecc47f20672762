"""An empty Debian in a folder, as a container would have it: nothing of this machine's caches or programs is in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SUITE = "bookworm"
_INSIDE = "PERDURE_BENCH_INSIDE"
_OF_CLIENTS = (
    "SSL_CERT_FILE",
    "PIP_CERT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_INDEX_URL",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
"""How clients of package registries are set up here."""
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_CACHES = shutil.ignore_patterns("__pycache__")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def enter(*programs: str) -> None:
    """Become a process whose mounts end with it.

    Args:
        programs: that are needed.

    Raises:
        RuntimeError: this machine can't do that; with what is missing.
    """
    if os.environ.get(_INSIDE):
        return
    missing = [each for each in programs if shutil.which(each) is None]
    if os.geteuid() != 0 or missing:
        raise RuntimeError(f"it mounts file systems, which needs root; not on PATH: {', '.join(missing) or 'nothing'}")
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.orig_argv[1:]])


class Place:
    """One such Debian.

    Args:
        root: the folder, which is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        """Install the base system, as an image of Debian has it."""
        self.root.mkdir(parents=True)
        command = ("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(self.root))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        # Nothing of this machine that could be written to: the folder is removed at the end.
        for kind, each in (("proc", "proc"), ("tmpfs", "dev/shm")):
            (self.root / each).mkdir(exist_ok=True)
            subprocess.run(("mount", "-t", kind, kind, str(self.root / each)), check=True)
        for each in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", _CERTIFICATES):
            if Path(each).exists():
                shutil.copy(each, self.root / each[1:])
        for settings in Path("/etc/apt/apt.conf.d").glob("*registry*"):
            shutil.copy(settings, self.root / "etc/apt/apt.conf.d")
        denied = self.root / "usr/sbin/policy-rc.d"  # packages start no services: the bench does
        denied.write_text("#!/bin/sh\nexit 101\n")
        denied.chmod(0o755)

    def leave(self) -> None:
        """Take away what is mounted, so that the folder can be removed and nothing of this machine with it."""
        for mount in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if mount.split()[1].startswith(f"{self.root}/"):
                subprocess.run(("umount", "--lazy", mount.split()[1]), check=True)

    def lend(self, folder: Path, name: str) -> None:
        """Show a folder of this machine inside, for reading."""
        inside = self.root / name
        inside.mkdir(parents=True, exist_ok=True)
        subprocess.run(("mount", "--bind", str(folder), str(inside)), check=True)
        subprocess.run(("mount", "-o", "remount,bind,ro", str(inside)), check=True)

    def command(
        self, *command: str, user: str = "root", path: str = "", **more: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """A command line that runs inside, and its environment."""
        home = "/root" if user == "root" else "/tmp"
        kept = {name: os.environ[name] for name in _OF_CLIENTS if name in os.environ}
        given = {"PATH": f"{path}:{_PATH}" if path else _PATH, "HOME": home, "LANG": "C.UTF-8", **kept, **more}
        return ["chroot", f"--userspec={user}", str(self.root), *command], given

    def run(self, *command: str, **more: str) -> str:
        """Run a command inside to its end; what it wrote.

        Raises:
            RuntimeError: it failed.
        """
        line, environment = self.command(*command, **more)
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:3])} ...: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout


def copied(sources: Sequence[Path], folder: Path) -> None:
    """Put files and folders into the place."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in sources:
        if each.is_dir():
            shutil.copytree(each, folder / each.name, ignore=_CACHES, dirs_exist_ok=True)
        else:
            shutil.copy(each, folder)
