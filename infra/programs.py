"""Fetches, or builds, the programs that tests run: once for a machine, before any test's time counts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from infra.pgbouncer import obtain_pgbouncer
from infra.promtool import obtain_promtool
from infra.temporal_binary import obtain_temporal
from infra.temporal_server_binary import obtain_temporal_server


def main() -> None:
    """All at once: each build downloads and links for a while, which leaves a core to the others. What can't be had,
    the tests say that need it."""
    ways: tuple[Callable[[], object], ...] = (
        obtain_temporal,
        obtain_temporal_server,
        obtain_promtool,
        obtain_pgbouncer,
    )
    with ThreadPoolExecutor(len(ways)) as threads:
        for obtaining in [threads.submit(obtain) for obtain in ways]:
            try:
                obtaining.result()
            except (RuntimeError, OSError) as error:
                print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
