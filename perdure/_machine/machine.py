"""What `perdure up` runs on one machine, as its command line requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from perdure._machine.folder import Folder


@dataclass(frozen=True)
class Machine:
    """What runs.

    Attributes:
        app: the App of the workers, as `package.module:name` or `package.module`.
        workers: how many worker processes.
        folder: of the installation.
        namespace: of Temporal.
        retention: how long Temporal keeps the histories of ended workflows, where the namespace is made.
        port: of Temporal; None = that of the last time.
        web_ui: True = Temporal's Web UI, which is built if need be; None = where the machine has it; False = none.
        trial: Temporal's dev server with a file, in place of the server on PostgreSQL.
        beside: command lines of further processes, by name, which start after the workers and stop before them.
        admin_url: a role that may make Temporal's role and databases; None = that of the app.
        temporal_url: a role that the operator has made for Temporal; None = one is made.
    """

    app: str
    workers: int
    folder: Folder
    namespace: str
    retention: timedelta
    port: int | None = None
    web_ui: bool | None = None
    trial: bool = False
    beside: tuple[tuple[str, tuple[str, ...]], ...] = ()
    admin_url: str | None = None
    temporal_url: str | None = None
