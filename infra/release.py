"""What a release must pass: built twice with the same bytes, checked, installed into an empty environment, and good for
the tutorial."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from infra.tutorial import Differs, follow

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
BUILD = ROOT / "build" / "release"
LOCKS = ROOT / "infra" / "locks"


def check(tag: str | None) -> None:
    """Leave the release in `dist/`.

    Args:
        tag: `vX.Y.Z`, for a release; None = the checkout is only tried.

    Raises:
        SystemExit: something is not as it must be.
    """
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    _check_version(version, tag)
    shutil.rmtree(BUILD, ignore_errors=True)
    tools = _environment("tools", LOCKS / "release.lock")
    first, second = (_built(tools, folder) for folder in (DIST, BUILD / "again"))
    if first != second:
        raise SystemExit(f"two builds differ: {first} and {second}")
    _run(tools, "-m", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    [wheel] = DIST.glob("*.whl")
    empty = _environment("empty", LOCKS / "worker.lock", wheel)
    shown = subprocess.run(
        [empty.parent / "perdure", "--version"], check=True, capture_output=True, text=True, cwd=BUILD
    )
    if version not in shown.stdout:
        raise SystemExit(f"the installed wheel shows {shown.stdout!r}, not {version}")
    subprocess.run([empty.parent / "perdure", "help"], check=True, stdout=subprocess.DEVNULL, cwd=BUILD)
    _follow_tutorial()
    for name, digest in first.items():
        print(f"{digest}  dist/{name}")


def _check_version(version: str, tag: str | None) -> None:
    if tag is None:
        return
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and pyproject.toml has version {version}")
    if not re.search(rf"^## {re.escape(version)} ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has no section '## {version} - DATE'")
    if not (ROOT / "tests" / "releases" / version).is_dir():
        raise SystemExit(f"tests/releases/{version} is missing: run make histories")


def _follow_tutorial() -> None:
    """Follow the tutorial in an empty folder, with the wheel in place of the one of the package index."""
    folder = BUILD / "tutorial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "MAKE"))}
    try:
        follow(folder, {**kept, "PIP_FIND_LINKS": str(DIST)}, print, installed=False)
    except Differs as error:
        raise SystemExit(str(error)) from None


def _environment(name: str, lock: Path, wheel: Path | None = None) -> Path:
    """The Python of a new virtual environment with what `lock` names, and `wheel`."""
    folder = BUILD / name
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock))
    if wheel is not None:
        _run(python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
        _run(python, "-m", "pip", "check")
    return python


def _built(python: Path, folder: Path) -> dict[str, str]:
    """SHA-256 of each file that a build of the checkout writes to `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    _run(python, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def _run(python: Path, *arguments: str) -> None:
    """Run it; what it prints is shown only when it fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1577836800"}
    ran = subprocess.run([python, *arguments], capture_output=True, text=True, env=environment)
    if ran.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{ran.stdout}{ran.stderr}")


if __name__ == "__main__":
    check(sys.argv[1] if len(sys.argv) > 1 else None)
