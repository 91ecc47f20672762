"""The provider of a run: a stand-in in its own process, whose log is the judge, and who hears what it reports."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from pydantic import SecretStr

from activities.telephony.settings import TelephonySettings
from infra.telephony.server import ACCOUNT, TOKEN
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from tests.deadline import DEADLINE
from workers.telephony.callbacks import StatusCallbacks

LATE = 2
"""Seconds by which a late callback is late."""
_ROOT = Path(__file__).parents[4]


@asynccontextmanager
async def provider(log: Path, **options: float) -> AsyncIterator[dict[str, str]]:
    """Run it; yields what workers need to know of it.

    Args:
        log: what it writes.
        options: of its command line, with `_` for `-`.
    """
    port, said = free_port(), log.with_suffix(".out")
    given = {"port": port, "log": log, "late": LATE, **{name.replace("_", "-"): each for name, each in options.items()}}
    command = [sys.executable, "-m", "infra.telephony.server", *(f"--{name}={each}" for name, each in given.items())]
    server = GuardedProcess(command, ask=signal.SIGTERM, log=said, cwd=_ROOT)
    try:
        async with asyncio.timeout(DEADLINE):
            while "listening at" not in said.read_text():
                assert server.running, said.read_text()
                await asyncio.sleep(0.02)
        yield {
            "PERDURE_TELEPHONY_API_URL": f"http://127.0.0.1:{port}",
            "PERDURE_TELEPHONY_ACCOUNT_SID": ACCOUNT,
            "PERDURE_TELEPHONY_AUTH_TOKEN": TOKEN,
            "PERDURE_TELEPHONY_SENDER": "+15005550006",
        }
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def heard(dsn: str) -> AsyncIterator[dict[str, str]]:
    """Take the provider's reports to the lifecycles; yields what workers need to know of that."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/telephony"
    config = TelephonySettings(callback_url=url, auth_token=SecretStr(TOKEN))
    async with (
        asyncpg.create_pool(dsn, min_size=0, max_size=8) as pool,
        StatusCallbacks(pool, config).listening("127.0.0.1", port),
    ):
        yield {"PERDURE_TELEPHONY_CALLBACK_URL": url}


def counted(log: Path) -> Counter[str]:
    """How often each outcome and each fault stands in the log."""
    found = Counter[str]()
    for line in map(json.loads, log.read_text().splitlines()):
        found[f"{line['what']}: {line['outcome']}"] += 1
        if line.get("fault"):
            found[f"fault: {line['fault']}"] += 1
    return found
