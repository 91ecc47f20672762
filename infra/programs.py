"""Fetches, or builds, the programs that tests run: once for a machine, before any test's time counts."""

from __future__ import annotations

import sys
from collections.abc import Callable

from infra.helm import obtain_helm
from infra.pgbouncer import obtain_pgbouncer
from infra.promtool import obtain_promtool
from infra.temporal_schema import obtain_schemas
from perdure.servers.temporal_binary import obtain_temporal
from perdure.servers.temporal_programs import obtain_programs


def main() -> None:
    """One after the other, since a build takes all cores. What can't be had, the tests say that need it."""
    ways: tuple[Callable[[], object], ...] = (
        obtain_temporal,
        obtain_programs,
        obtain_schemas,
        obtain_promtool,
        obtain_helm,
        obtain_pgbouncer,
    )
    for obtain in ways:
        try:
            obtain()
        except (RuntimeError, OSError) as error:
            print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
