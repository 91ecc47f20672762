"""The manifests of the chart, and the pods in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from infra.helm import rendered


def manifests(*values: Path) -> list[dict[str, Any]]:
    """What the chart makes of these values."""
    return [each for each in yaml.safe_load_all(rendered("shop", *values)) if each]


def pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The specifications of pods in a manifest."""
    found: list[dict[str, Any]] = []
    for key, value in manifest.items():
        if key == "template" and "containers" in value.get("spec", {}):
            found.append(value["spec"])
        elif isinstance(value, dict):
            found += pods(value)
    return found
