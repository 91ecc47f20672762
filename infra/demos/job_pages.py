"""The pages of activities/web_jobs/pages, each in a process of its own that can be killed and started again.

What they did and what they dropped is read from what they wrote: the count at the other side.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

from infra.restartable import Restartable
from perdure.servers.cache import cache_directory, made_once
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.programs import output_of
from perdure.servers.progress import progress

PAGES = Path(__file__).parents[2] / "activities" / "web_jobs" / "pages"
FILES = {"python": "page.py", "node": "page.mjs", "go": "page.go"}


def missing(language: str) -> str | None:
    """Why a page in this language can't run here; None if it can."""
    if language == "python" or shutil.which(language) is not None:
        return None
    return f"no {language} on PATH: activities/web_jobs/pages/{FILES[language]} does not run"


class PageProcess(Restartable):
    """One of them.

    Args:
        language: a key of `FILES`.
        folder: for what it writes, and for what is built.
        secret: as `whsec_...`: it answers 401 to what is not signed with it. The sample pages do not start without.
        file: another page than the sample.
        known_as: the origin under which callers know it, if that is not its own, as behind a proxy.
    """

    def __init__(
        self, language: str, folder: Path, secret: str = "", file: Path | None = None, known_as: str | None = None
    ) -> None:
        self.language = language
        self.port = free_port()
        self._file = file or PAGES / FILES[language]
        self._folder = folder / language
        self._worked, self._log = self._folder / "worked.txt", self._folder / "page.log"
        self._secret = secret
        self._known_as = known_as or self.origin

    @property
    def origin(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it listens.

        Raises:
            RuntimeError: it ended instead, or could not be built; the message holds its output.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "PORT": str(self.port),
            "ORIGIN": self._known_as,
            "WORKED": str(self._worked),
            "SECRET": self._secret,
        }
        self._process = GuardedProcess(
            await self._command(),
            ask=signal.SIGTERM,
            log=self._log,
            cwd=self._folder,
            env={**os.environ, **environment},
        )
        await self._until_it_listens()

    def worked(self) -> Counter[str]:
        """How often it has done the work of each request body."""
        lines = self._worked.read_text().splitlines() if self._worked.exists() else []
        return Counter(line.partition("\t")[2] for line in lines)

    def dropped(self) -> int:
        """How many requests it has dropped as repeats."""
        return sum(line.startswith("dropped ") for line in self._log.read_text().splitlines())

    async def _command(self) -> list[str]:
        if self.language == "python":
            return [sys.executable, str(self._file)]
        if self.language == "node":
            return ["node", str(self._file)]
        built = _built_once if self._file.parent == PAGES else _built
        return [str(await asyncio.to_thread(built, self._file))]

    async def _until_it_listens(self) -> None:
        assert self._process is not None
        while self._process.running:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
        await asyncio.to_thread(self._process.stop)
        raise RuntimeError(f"the page in {self.language} did not start: {self._log.read_text()[-500:]}")


def _built_once(file: Path) -> Path:
    """The program of a page in Go; built once for each text of it."""

    def build(target: Path) -> None:
        with progress("building the page in Go (once)"):
            _build(file, target)

    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return made_once(cache_directory() / f"job-page-{digest}", build)


def _built(file: Path) -> Path:
    """The program of one that is needed once, beside it."""
    target = file.with_suffix("")
    _build(file, target)
    return target


def _build(file: Path, target: Path) -> None:
    output_of(["go", "build", "-o", str(target), str(file)], target.parent, {"GOWORK": "off"})
