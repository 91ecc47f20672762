"""The Temporal server of one machine: its command lines, and when it serves the namespace."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._machine import end_with_parent
from perdure._machine.folder import WEB_UI
from perdure._worker.namespace import make_namespace
from perdure.errors import NotPermitted
from perdure.servers.dev_server import PROMPT_QUEUE as DEV_PROMPT_QUEUE
from perdure.servers.dev_server import UPDATES, dev_options
from perdure.servers.temporal_on_postgres import (
    FRONTEND,
    HTTP,
    PORTS,
    PROMPT_QUEUE,
    ServerDatabase,
    server_environment,
    write_dynamic_config,
)

_DYNAMIC_CONFIG: dict[str, object] = {
    **PROMPT_QUEUE,
    # All services know a namespace that was just made two seconds later, and not ten.
    "system.namespaceCacheRefreshInterval": "2s",
}
_CHOICES = {
    "LOG_LEVEL": "warn",
    # It is fixed when the database is made. One more shard costs CPU while nothing runs: 4 take 1.2 % of a core,
    # 64 take 2 %, 512 take 5 % and 130 MB.
    "NUM_HISTORY_SHARDS": "64",
    "SQL_MAX_CONNS": "8",
    "SQL_MAX_IDLE_CONNS": "8",
    "SQL_VIS_MAX_CONNS": "4",
    "SQL_VIS_MAX_IDLE_CONNS": "4",
}
"""Variables of the server that an operator may set otherwise."""
_MORE_CHOICES = ("PROMETHEUS_ENDPOINT", "SQL_MAX_CONN_TIME", "SQL_VIS_MAX_CONN_TIME", "GOMEMLIMIT", "GOMAXPROCS")
_OF_THE_MACHINE = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_NOBODY = "nobody"
_LOOK_EVERY = 0.1
_ANSWERS_WITHIN = timedelta(seconds=5)


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """The command, as a process that ends with this one."""
    return [sys.executable, "-I", str(Path(end_with_parent.__file__)), str(os.getpid()), *command]


def environment_of_machine() -> dict[str, str]:
    """What any program needs. The passwords and keys of the app are not for Temporal's programs."""
    return {name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ}


def environment_of_server(database: ServerDatabase, ports: Mapping[str, int], folder: Path) -> dict[str, str]:
    """The environment of `temporal-server`."""
    file = folder / "dynamic-config.yaml"
    if not file.exists() or not file.stat().st_size:  # else it is the operator's; a crash can leave an empty one
        write_dynamic_config(file, _DYNAMIC_CONFIG)
    chosen = {name: os.environ[name] for name in (*_CHOICES, *_MORE_CHOICES) if name in os.environ}
    own = {name: port for name, port in ports.items() if name in PORTS}
    return {**environment_of_machine(), **_CHOICES, **chosen, **server_environment(database, own, file)}


def try_options(ports: Mapping[str, int], folder: Path, namespace: str) -> list[str]:
    """The options of the dev server, which keeps its workflows in a file."""
    return [
        "server",
        "start-dev",
        *dev_options(
            ports[FRONTEND],
            ports[HTTP],
            ui_port=ports[WEB_UI],
            db_file=folder / "temporal.db",
            namespace=namespace,
            dynamic_config=UPDATES | DEV_PROMPT_QUEUE,
        ),
    ]


def web_ui_command(program: Path, ports: Mapping[str, int], folder: Path, namespace: str) -> list[str]:
    """The command line of Temporal's `ui-server`, whose configuration is written into the folder."""
    configuration = folder / "web-ui"
    configuration.mkdir(exist_ok=True)
    address = f"http://127.0.0.1:{ports[WEB_UI]}"
    lines = (
        f"temporalGrpcAddress: 127.0.0.1:{ports[FRONTEND]}",
        "host: 127.0.0.1",
        f"port: {ports[WEB_UI]}",
        "enableUi: true",
        f"defaultNamespace: {namespace}",
        "notifyOnNewVersion: false",
        "hideLogs: true",
        f'cors: {{allowOrigins: ["{address}"]}}',
    )
    (configuration / "perdure.yaml").write_text("\n".join((*lines, "")))
    return ending_with_parent(
        [str(program), "--root", str(folder), "--config", configuration.name, "--env", "perdure", "start"],
    )


async def until_serving(address: str, namespace: str, retention: timedelta) -> None:
    """Wait until the server at `address` serves the namespace, which is made if it is missing."""
    while True:
        with suppress(RPCError, RuntimeError):
            client = await Client.connect(address, namespace=namespace)
            await make_namespace(client, retention)
            await check_parts(client)
            return
        await asyncio.sleep(_LOOK_EVERY)


async def check_parts(client: Client) -> None:
    """Ask history and matching for something in the namespace. Their lists of namespaces are up to two seconds behind.

    Raises:
        RPCError: one does not answer, or does not know the namespace.
    """
    queue = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=_NOBODY))
    await client.workflow_service.describe_task_queue(queue, timeout=_ANSWERS_WITHIN)
    workflow = DescribeWorkflowExecutionRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id=_NOBODY)
    )
    try:
        await client.workflow_service.describe_workflow_execution(workflow, timeout=_ANSWERS_WITHIN)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND or "amespace" in error.message:
            raise


def check_step(before: str | None, version: str) -> None:
    """Refuse to skip a minor version: Temporal supports the step from one to the next, and back.

    Raises:
        NotPermitted: one was skipped.
    """
    one, other = _minor(before or ""), _minor(version)
    if one is None or other is None:
        return
    if one[0] != other[0] or abs(one[1] - other[1]) > 1:
        raise NotPermitted(
            f"the Temporal server was {before}, and {version} is more than one minor version away: run those between "
            "them first, each until `perdure up status` shows it ready (PERDURE_TEMPORAL_BIN names the folder of one)"
        )


def _minor(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)\.", version)
    return None if found is None else (int(found[1]), int(found[2]))
