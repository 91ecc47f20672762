"""The versions of the site: `python -m infra.site.versions v0.5.0` adds one to the branch gh-pages of this clone.

Each minor version has a folder. The alias `latest` leads to the newest one that is no pre-release.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LATEST = "latest"
_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)(\S*)")


def deployment(tag: str, published: Sequence[str]) -> list[str]:
    """The version and aliases that `tag` gets, beside the versions that are there.

    Raises:
        ValueError: it is not the tag of a release.
    """
    found = _TAG.fullmatch(tag)
    if found is None:
        raise ValueError(f"{tag} is not the tag of a release, such as v0.5.0")
    minor, is_release = (int(found[1]), int(found[2])), not found[4]
    newest = all(minor >= _minor(each) for each in published)
    return [f"{minor[0]}.{minor[1]}", *([LATEST] if is_release and newest else [])]


def publish(tag: str) -> None:
    """Build the site of this checkout as the version of `tag`, and commit it to the branch gh-pages."""
    published = [each["version"] for each in json.loads(_mike("list", "--json"))]
    names = deployment(tag, published)
    _mike("deploy", "--update-aliases", "--title", tag, *names)
    if LATEST in names:
        _mike("set-default", LATEST)


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def _mike(*words: str) -> str:
    programs = Path(sys.executable).parent  # mike looks for mkdocs on PATH
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.check_output([str(programs / "mike"), *words], env=environment, text=True)


if __name__ == "__main__":
    publish(sys.argv[1])
