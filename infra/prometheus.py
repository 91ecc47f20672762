"""A real Prometheus of a test's own, with the rules of `infra/telemetry`, hurried: it looks several times a second.

Looked for on PATH. Debian has it: apt-get install prometheus.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port

RULES = Path(__file__).parent / "telemetry" / "alerts.yaml"
HURRY = 60
"""So many times less than in production are the seconds that a rule compares with."""
_LOOKS = "250ms"
_INSTALL = "no Prometheus here: install it (Debian: apt-get install --no-install-recommends prometheus)"


def why_no_prometheus() -> str | None:
    """What is missing to run one here, in one sentence; None if it can be run."""
    return None if shutil.which("prometheus") else _INSTALL


def hurried(rules: str) -> str:
    """The rules for a test: each fires at its first look, and seconds are some sixtieth of what they are."""
    rules = re.sub(r"(for|keep_firing_for): \S+", r"\1: 1s", rules)
    return re.sub(
        r"(seconds\)) > (60|120|300)$", lambda at: f"{at[1]} > {int(at[2]) / HURRY:g}", rules, flags=re.MULTILINE
    )


class Prometheus:
    """One server, from `with` to its end; its data are in `folder`.

    Args:
        target: `host:port` that it scrapes.
    """

    def __init__(self, folder: Path, target: str) -> None:
        folder.mkdir()
        rules, self._config = folder / "rules.yaml", folder / "prometheus.yaml"
        rules.write_text(hurried(RULES.read_text()))
        scraped = {"job_name": "perdure", "static_configs": [{"targets": [target]}]}
        looks = {"scrape_interval": _LOOKS, "scrape_timeout": _LOOKS, "evaluation_interval": _LOOKS}
        about = {"global": looks, "rule_files": [str(rules)], "scrape_configs": [scraped]}
        self._config.write_text(json.dumps(about))  # JSON is YAML
        self._folder = folder
        self._address = f"127.0.0.1:{free_port()}"
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        command = [
            *("prometheus", f"--config.file={self._config}", f"--storage.tsdb.path={self._folder / 'data'}"),
            *(f"--web.listen-address={self._address}", "--log.level=warn"),
        ]
        self._process = GuardedProcess(command, ask=signal.SIGTERM, log=self._folder / "log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.stop()

    async def firing(self) -> list[dict[str, str]]:
        """The labels of each alert that fires; none before it answers."""
        found = await self._asked("alerts")
        return [each["labels"] for each in found.get("alerts", []) if each["state"] == "firing"]

    async def series(self, expression: str) -> list[Any]:
        """The series that an expression has now; none before it answers."""
        return list((await self._asked("query", query=expression)).get("result", []))

    async def _asked(self, what: str, **about: str) -> dict[str, Any]:
        url = f"http://{self._address}/api/v1/{what}?{urllib.parse.urlencode(about)}"
        try:
            answer = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read()))
        except OSError:
            return {}
        return dict(answer["data"])
