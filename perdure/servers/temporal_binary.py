"""The `temporal` program, whose `server start-dev` is a whole Temporal server in one process.

Looked for on PATH and in our cache; else downloaded by the SDK, or built with Go where no download gets out.
"""

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from temporalio.testing import WorkflowEnvironment

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.go import go_install
from perdure.servers.programs import by_first_way
from perdure.servers.progress import progress

# The newest that `go install` takes: from 1.6.0 on its go.mod has a `replace`.
_GO_PACKAGE = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
_DOWNLOAD_LIMIT = 300.0  # seconds


class TemporalMissingError(RuntimeError):
    """There is no `temporal` program, and none of the ways to get one worked."""


def find_temporal() -> Path | None:
    """Return the program if it is on PATH or in our cache; fetch nothing."""
    on_path = shutil.which("temporal")
    if on_path is not None:
        return Path(on_path)
    cached = _cached()
    return cached if cached.exists() else None


def obtain_temporal() -> Path:
    """Return the program, fetched into our cache first if need be: minutes, once for a machine.

    Raises:
        TemporalMissingError: with what was tried, and why each of it failed.
    """
    return find_temporal() or made_once(_cached(), _make)


def _cached() -> Path:
    return cache_directory() / "bin" / "temporal"


def _make(target: Path) -> None:
    absent = ["PATH: no program 'temporal'", f"our cache: no {_cached()}"]
    ways: dict[str, Callable[[Path], None]] = {
        "the SDK's download": _download,
        f"go install {_GO_PACKAGE}": _build,
    }
    if tried := by_first_way(ways, target):
        raise TemporalMissingError(
            "no Temporal dev server. Tried, in this order:\n  - "
            + "\n  - ".join([*absent, *tried])
            + "\nPut the Temporal CLI on PATH, or name a running server: PERDURE_TEST_TEMPORAL_ADDRESS=host:port"
        )


def _download(target: Path) -> None:
    with progress("downloading the Temporal dev server (once)"), ThreadPoolExecutor(1) as thread:
        # In a thread of its own: our caller may well be inside an event loop.
        thread.submit(asyncio.run, _start_once(target.parent)).result()
    # The SDK names the file after its own version; nothing else lies in this directory.
    [downloaded] = [path for path in target.parent.iterdir() if path.is_file()]
    downloaded.rename(target)


async def _start_once(directory: Path) -> None:
    # The SDK downloads only as a part of starting, which proves at the same time that the program runs here.
    starting = WorkflowEnvironment.start_local(
        download_dest_dir=str(directory),
        dev_server_log_level="never",
        dev_server_startup_timeout=timedelta(seconds=30),
    )
    async with asyncio.timeout(_DOWNLOAD_LIMIT):
        environment = await starting
    await environment.shutdown()


def _build(target: Path) -> None:
    go_install(_GO_PACKAGE, target.parent, "building the Temporal dev server with Go (once, 2-3 minutes)")
    if not target.exists():
        raise RuntimeError(f"it succeeded, but left no {target.name!r} in GOBIN={target.parent}")
