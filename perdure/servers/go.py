"""Programs and sources that are built with Go, where no prebuilt one can be had. The caller keeps them in our cache."""

import json
from pathlib import Path

from perdure.servers.programs import output_of
from perdure.servers.progress import progress


def go_install(package: str, folder: Path, what: str) -> None:
    """Build the program of `package` into `folder`, under a progress line with the text `what`.

    Args:
        package: path and version, e.g. "github.com/temporalio/cli/cmd/temporal@v1.5.1".

    Raises:
        FileNotFoundError: there is no Go on PATH.
        RuntimeError: it could not be built; the message holds the last lines that Go wrote.
    """
    with progress(what):
        _go(["install", package], folder)


def go_sources(module: str, folder: Path) -> Path:
    """Return the folder in Go's own module cache that holds the sources of `module` (path and version).

    Raises:
        FileNotFoundError: there is no Go on PATH.
        RuntimeError: they could not be had.
    """
    return Path(json.loads(_go(["mod", "download", "-json", module], folder))["Dir"])


def _go(arguments: list[str], folder: Path) -> str:
    # Away from any go.mod or go.work of the directory we happen to be called in.
    return output_of(["go", *arguments], folder, {"GOBIN": str(folder), "GOWORK": "off"})
