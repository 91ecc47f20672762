"""Which versions of Temporal's SDK a rehearsal works with.

It drives the SDK's own workflow instances, whose interface is not public and changes between minor versions.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version

OLDEST, NEWEST = (1, 33), (1, 35)
"""The minor versions that `make test-sdks` tries."""


class UnsupportedSDK(ImportError):
    """The installed `temporalio` is too old for `perdure.testing`."""


def check_sdk(installed: str | None = None) -> None:
    """Refuse an SDK that is too old, and warn of one that is newer than those which were tested.

    Args:
        installed: version of `temporalio`; None = the one that is installed.

    Raises:
        UnsupportedSDK: it is older than `OLDEST`.
    """
    installed = installed or version("temporalio")
    minor = tuple(int(part) for part in installed.split(".")[:2])
    tested = f"perdure.testing was tested with temporalio {_text(OLDEST)} to {_text(NEWEST)}"
    if minor < OLDEST:
        raise UnsupportedSDK(f"temporalio {installed} is too old: {tested}; install one of these for your tests")
    if minor > NEWEST:
        warnings.warn(
            f"temporalio {installed} is newer: {tested}; if a rehearsal fails inside the SDK, install one of these",
            stacklevel=3,
        )


def _text(minor: tuple[int, int]) -> str:
    return ".".join(map(str, minor))
