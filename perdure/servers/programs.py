"""Programs that infra/ calls to get others: where they are, what they wrote, and one way after the other."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def on_path(program: str) -> str:
    """Where `program` is.

    Raises:
        FileNotFoundError: it is not on PATH.
    """
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(f"no program {program!r} on PATH")
    return found


def output_of(command: Sequence[str], folder: Path, more: Mapping[str, str] | None = None) -> str:
    """Run `command` in `folder`, with `more` in its environment; what it wrote to its standard output.

    Raises:
        FileNotFoundError: the program is not on PATH.
        RuntimeError: it failed; the message holds the last lines of its output.
    """
    program, *arguments = command
    environment = os.environ | (more or {})
    outcome = subprocess.run(
        [on_path(program), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"exit status {outcome.returncode}: {' / '.join(outcome.stderr.splitlines()[-5:])}")
    return outcome.stdout


def by_first_way(ways: Mapping[str, Callable[[Path], None]], target: Path) -> list[str]:
    """Make `target` by the first of `ways` that works; why each failed, or nothing if one worked."""
    tried = []
    for name, way in ways.items():
        try:
            way(target)
        except (RuntimeError, OSError) as error:
            tried.append(f"{name}: {error}")
        else:
            return []
    return tried
