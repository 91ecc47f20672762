"""The options of Temporal's dev server (`temporal server start-dev`): one process on 127.0.0.1, and SQLite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

# On by default in server 1.29; an older one may be what is on PATH.
UPDATES = {
    "frontend.enableUpdateWorkflowExecution": "true",
    "frontend.enableUpdateWorkflowExecutionAsyncAccepted": "true",
    "frontend.enableExecuteMultiOperation": "true",
}
# Without it each task that goes through the transfer queue waits about 250 ms above 3 runs a second.
PROMPT_QUEUE = {"history.transferProcessorMaxPollRPS": "1000"}
# Half the cost of SQLite's default journal, and nothing committed is lost when the server is killed.
_DURABLE = ("--sqlite-pragma=journal_mode=WAL", "--sqlite-pragma=synchronous=2")
_NOTHING: Mapping[str, str] = MappingProxyType({})


def dev_options(
    port: int,
    http_port: int,
    *,
    ui_port: int | None = None,
    db_file: Path | None = None,
    namespace: str = "default",
    metrics_port: int | None = None,
    dynamic_config: Mapping[str, str] = _NOTHING,
    search_attributes: Mapping[str, str] = _NOTHING,
) -> list[str]:
    """The options after `temporal server start-dev`.

    Args:
        port: for gRPC.
        http_port: for the HTTP view of it.
        ui_port: for the Web UI; None = no Web UI.
        db_file: where workflows survive a restart; None = in memory.
        namespace: is made at the start.
        metrics_port: where it shows its metrics; None = a random one.
        dynamic_config: settings of the server; values are JSON.
        search_attributes: name to type, registered at the start.
    """
    options = ["--ip=127.0.0.1", f"--port={port}", f"--http-port={http_port}"]
    options += [f"--ui-port={ui_port}"] if ui_port else ["--headless"]
    options += [f"--metrics-port={metrics_port}"] if metrics_port else []
    options += [f"--db-filename={db_file}", *_DURABLE] if db_file else []
    options += [f"--namespace={namespace}"]
    options += [f"--dynamic-config-value={name}={value}" for name, value in dynamic_config.items()]
    options += [f"--search-attribute={name}={kind}" for name, kind in search_attributes.items()]
    return [*options, "--log-level=warn", "--color=never"]
