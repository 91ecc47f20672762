"""The time-skipping test server: thirty days of a workflow pass in a second.

It is Temporal's older Java server (no search attributes, no update-with-start): for long timers only.
Downloaded by the SDK, or fetched with Maven and run with Java where no download gets out.
"""

import asyncio
import shlex
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from temporalio.testing import WorkflowEnvironment

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.programs import on_path
from perdure.servers.progress import progress

_VERSION = "1.38.0"
_MAIN = Path(__file__).with_name("LoopbackTestServer.java")
_STARTS_WITHIN = timedelta(seconds=180)
_PROJECT = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>perdure</groupId><artifactId>time-skipping</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.temporal</groupId><artifactId>temporal-test-server</artifactId><version>{_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
# The second line ends the server when whoever started it is gone, however that went.
_SCRIPT = """\
#!/bin/sh
(while kill -0 $PPID && kill -0 $$; do sleep 1; done; kill $$) >/dev/null 2>&1 &
exec {java} -cp {home}:{home}/lib/'*' {main} "$@"
"""


class TimeSkippingMissingError(RuntimeError):
    """There is no time-skipping server, and none of the ways to get one worked."""


@asynccontextmanager
async def time_skipping_environment(**options: Any) -> AsyncIterator[WorkflowEnvironment]:
    """Run a time-skipping server and give its environment.

    Args:
        options: for `WorkflowEnvironment.start_time_skipping`, e.g. `data_converter`.

    Raises:
        TimeSkippingMissingError: with what was tried, and why each of it failed.
    """
    environment = await _start(options)
    try:
        yield environment
    finally:
        await environment.shutdown()


async def _start(options: dict[str, Any]) -> WorkflowEnvironment:
    script = _by_maven()
    if script.exists():
        return await _start_script(script, options)
    try:
        return await _start_downloaded(options)
    except RuntimeError as error:
        refused = str(error)
    try:
        await asyncio.to_thread(made_once, script.parent, _fetch)
    except (RuntimeError, OSError) as error:
        raise TimeSkippingMissingError(
            f"no time-skipping test server. Tried, in this order:\n  - our cache: no {script}\n"
            f"  - the SDK's download: {refused}\n  - Maven and Java: {error}"
        ) from error
    return await _start_script(script, options)


async def _start_downloaded(options: dict[str, Any]) -> WorkflowEnvironment:
    directory = cache_directory() / "time-skipping"
    directory.mkdir(parents=True, exist_ok=True)
    with progress("starting the time-skipping test server (downloaded once)"):
        return await WorkflowEnvironment.start_time_skipping(download_dest_dir=str(directory), **options)


async def _start_script(script: Path, options: dict[str, Any]) -> WorkflowEnvironment:
    start = partial(WorkflowEnvironment.start_time_skipping, test_server_existing_path=str(script), **options)
    if "test_server_startup_timeout" in signature(WorkflowEnvironment.start_time_skipping).parameters:
        return await start(test_server_startup_timeout=_STARTS_WITHIN)
    end = time.monotonic() + _STARTS_WITHIN.total_seconds()
    while True:  # temporalio before 1.35 waits for 5 s
        try:
            return await start()
        except RuntimeError:
            if time.monotonic() > end:
                raise


def _by_maven() -> Path:
    return cache_directory() / f"temporal-test-server-{_VERSION}" / "run"


def _fetch(target: Path) -> None:
    maven, compiler, java = (on_path(name) for name in ("mvn", "javac", "java"))
    target.mkdir()
    project = target / "pom.xml"
    project.write_text(_PROJECT)
    libraries = target / "lib"
    with progress("fetching the time-skipping test server with Maven (once, about a minute)"):
        _run(maven, "--batch-mode", "--quiet", "-f", project, "dependency:copy-dependencies",
             "-DincludeScope=runtime", f"-DoutputDirectory={libraries}")  # fmt: skip
        _run(compiler, "-cp", f"{libraries}/*", "-d", target, _MAIN)
    # `home` is where the directory will be once it is complete, not where it is now.
    home = shlex.quote(str(_by_maven().parent))
    script = target / "run"
    script.write_text(_SCRIPT.format(java=shlex.quote(java), home=home, main=_MAIN.stem))
    script.chmod(0o755)


def _run(*command: str | Path) -> None:
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        lines = (outcome.stdout + outcome.stderr).splitlines()
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise RuntimeError(f"{command[0]}: exit status {outcome.returncode}: {' / '.join(errors[:3])}")
