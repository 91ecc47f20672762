"""Secrets by reference, `env:NAME` or `file:/path`: each use reads them anew, so that they can be replaced."""

from __future__ import annotations

import os
from pathlib import Path


class NoSecret(Exception):
    """A secret that cannot be used. The message names its place and the fault, never its value."""


def text_at(place: str) -> str:
    """The text at `env:NAME` or `file:/path`.

    Raises:
        NoSecret: the text cannot be read.
    """
    kind, _, name = place.partition(":")
    if kind == "env":
        if name not in os.environ:
            raise NoSecret(f"the secret {place} is not in the environment of this worker")
        return os.environ[name]
    try:
        return Path(name).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not plain text"
        raise NoSecret(f"the secret {place} can't be read: {why}") from None
