"""Keeps the results of a measurement in a JSON file, so that a part of it can be measured again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def kept(file: Path, *, again: bool) -> dict[str, Any]:
    """The results of earlier runs by name, if a part is measured `again`; otherwise none."""
    content: dict[str, Any] = json.loads(file.read_text()) if again and file.exists() else {}
    return content


def keep(file: Path, results: Mapping[str, Any]) -> None:
    """Write the results so far."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(results, indent=2) + "\n")
