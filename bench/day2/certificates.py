"""Certificates are replaced while workers and relay run, which speak mutual TLS to PostgreSQL and Temporal.

For a time both authorities are trusted, as where nothing can be replaced everywhere at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import sys
import time
from pathlib import Path

from bench.day2.operator import Operator
from bench.failover.rig import APP, DATABASE, Rig
from bench.polling import eventually
from infra.certificates import Authority, server_context
from infra.secured import Files, TlsProxy, behind_tls
from perdure.servers.guard import GuardedProcess

_ANEW = "connected to Temporal anew"


class Certificates:
    """The drill: two workers without a relay, and `perdure services`."""

    def __init__(self) -> None:
        self._old, self._new = Authority("old"), Authority("new")
        self._proxies: list[TlsProxy] = []
        self._logs: list[Path] = []

    async def secured_processes(self, operator: Operator) -> None:
        """Start them, with certificates of the old authority."""
        rig = operator.rig
        self._files = Files(rig.folder / "client")
        self._files.write(self._old, self._old.issue("worker"))
        context = server_context(self._old.issue("server"), self._old, rig.folder)
        for target, postgres in ((f"127.0.0.1:{rig.primary.port}", True), (rig.temporal.address, False)):
            proxy = await rig.until.enter_async_context(behind_tls(target, context, postgres=postgres))
            self._proxies.append(proxy)
        given = self._environment(rig)
        await asyncio.gather(*(rig.worker(PERDURE_RELAY="false", **given) for _ in range(2)))
        log = rig.folder / "services.log"
        command = (sys.executable, "-m", "perdure.cli", "services", APP)
        environment = {**os.environ, "SHOP_SIDE": "look-up", **given}
        process = GuardedProcess(command, ask=signal.SIGTERM, log=log, env=environment)
        rig.until.callback(process.kill)
        self._logs = [log, *(rig.folder / f"worker-{number}.log" for number in range(2))]

    async def replace(self, operator: Operator) -> float:
        """See what `perdure doctor` warns of; then trust both authorities, replace the servers' certificates, then
        those of the clients, and trust the new authority alone."""
        rig, old, new = operator.rig, self._old, self._new
        given = self._environment(rig)
        warned = await operator.perdure("doctor", may_fail=True, **given)
        began = time.time()
        self._files.ca.write_bytes(old.cert + new.cert)
        await self._all_connected_anew(1)
        await self._serve(server_context(new.issue("server"), old, rig.folder, new))
        worker = new.issue("worker")
        worker.write(self._files.cert, self._files.key)
        await self._all_connected_anew(2)
        self._files.ca.write_bytes(new.cert)
        await self._all_connected_anew(3)
        await self._serve(server_context(new.issue("server"), new, rig.folder))
        took = time.time() - began
        for proxy in self._proxies:
            proxy.serials.clear()
        await eventually(lambda: all(proxy.serials for proxy in self._proxies), "connections to both")
        assert {each for proxy in self._proxies for each in proxy.serials} == {worker.serial}
        ends = len(re.findall(r" ends on .*, in ", warned))
        operator.saw.append(
            f"`perdure doctor` named {ends} certificates that end; replaced in {took:.0f} s, no process was restarted; "
            f"three times in the log of each: *{_ANEW}: its certificates or API key have changed*"
        )
        return began

    def _environment(self, rig: Rig) -> dict[str, str]:
        postgres, temporal = self._proxies
        return {
            "PERDURE_DATABASE_URL": self._files.url(rig.primary.dsn(DATABASE), postgres.port),
            "TEMPORAL_ADDRESS": f"127.0.0.1:{temporal.port}",
            **self._files.temporal(),
        }

    async def _all_connected_anew(self, times: int) -> None:
        def done() -> bool:
            return all(each.read_text(errors="replace").count(_ANEW) >= times for each in self._logs)

        await eventually(done, f"all processes are connected anew, {times} times")

    async def _serve(self, context: ssl.SSLContext) -> None:
        for proxy in self._proxies:
            await proxy.change(context)
