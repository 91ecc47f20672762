"""Everything up for a day's work: servers that keep their data, and a worker that reloads when a file changes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rich.console import Console
from watchfiles import PythonFilter, awatch

from infra.stack import ROOT, Stack, WorkerProcess

ROOMS = ("perdure", "workflows", "activities", "workers")

console = Console()


async def dev() -> None:
    """Run until Ctrl-C."""
    async with Stack(ROOT / "build" / "dev", keep=True).up() as stack:
        console.print(f"Web UI: {stack.temporal.ui_url}   maildir: {stack.maildir}", soft_wrap=True)
        for name, value in stack.environment().items():
            console.print(f"  export {name}={value}", highlight=False, soft_wrap=True)
        worker = await started(stack)
        rooms = [ROOT / room for room in ROOMS]
        async for changes in awatch(*rooms, watch_filter=PythonFilter(extra_extensions=[".sql"])):
            changed = ", ".join(sorted(str(Path(path).relative_to(ROOT)) for _, path in changes))
            console.print(f"changed: {changed}; the worker is restarted")
            if worker is not None:
                await worker.end()
            worker = await started(stack)


async def started(stack: Stack) -> WorkerProcess | None:
    """A worker; None, with what is wrong said, if the code on disk does not run."""
    try:
        worker = await stack.start_worker("worker", PERDURE_LOG="text")
    except RuntimeError as error:
        console.print(f"[red]{error}[/red]", soft_wrap=True)
        return None
    console.print(f"a worker runs (pid {worker.pid}), and logs to {worker.log}", soft_wrap=True)
    return worker


def main() -> None:
    """Entry point of `make dev`."""
    try:
        asyncio.run(dev())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
