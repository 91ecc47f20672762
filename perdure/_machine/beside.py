"""A process that runs beside the workers, such as the console. It is started again when it ends or hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure._worker.child import Child
from perdure._worker.processes import end_hung
from perdure._worker.siblings import Sibling
from perdure.servers.ports import free_port


class Beside:
    """One such process.

    Args:
        name: for messages.
        command: it answers `/live` at PERDURE_HEALTH.
        environment: the rest of its environment.
        changed: called after each change of its state.
        more: further arguments of `Child`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        changed: Callable[[], None],
        **more: Any,
    ) -> None:
        self._sibling, self._changed = Sibling(0, free_port()), changed
        environment = {**environment, "PERDURE_HEALTH": f"127.0.0.1:{self._sibling.port}"}
        self.child = Child(name, command, environment, changed=self._note, **more)

    async def kept(self) -> None:
        """Run the process, and replace it whenever it ends or hangs."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.child.keep())
            tasks.create_task(end_hung(self.child, self._sibling))

    def _note(self) -> None:
        self._sibling.began = self.child.began
        self._changed()
