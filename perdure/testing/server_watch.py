"""Interrupts workflow code that never waits, as a worker does: a rehearsal of an endless loop would never return."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")

LONGEST: Final = 10.0
"""Seconds of the processor that one activation may use. A debugger that waits for a command uses none."""


class RunawayWorkflow(Exception):
    """The workflow's code did not wait, or was still going after `max_activations`; most likely it loops."""


class _Interrupted(BaseException):
    """Raised in the code of the workflow, wherever it is."""


def watched(step: Callable[[], _T]) -> _T:
    """Return the result of `step`, which activates a workflow.

    Raises:
        RunawayWorkflow: the step was interrupted after `LONGEST`. The message has the place.
    """
    watch = _Watch(threading.get_ident())
    watch.start()
    try:
        try:
            result = step()
        finally:
            watch.end()
    except _Interrupted:
        watch.raise_runaway()
        raise
    watch.raise_runaway()
    return result


class _Watch(threading.Thread):
    """Interrupts another thread once."""

    def __init__(self, other: int) -> None:
        super().__init__(name="perdure-rehearsal", daemon=True)
        self._other = other
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._stack: str | None = None

    def run(self) -> None:
        """See base class."""
        began = time.process_time()
        while not self._over.wait(LONGEST / 10):
            if time.process_time() - began > LONGEST:
                return self._interrupt()

    def end(self) -> None:
        """Interrupt nothing from now on."""
        with self._turn:
            self._over.set()
        self.join()

    def raise_runaway(self) -> None:
        """Raise, if the step was interrupted."""
        if self._stack is not None:
            raise RunawayWorkflow(
                "the lifecycle's code ran too long without waiting: it loops for ever, or it makes a call that takes "
                f"long. It was here:\n{self._stack}"
            )

    def _interrupt(self) -> None:
        with self._turn:
            if not self._over.is_set():
                frames = traceback.extract_stack(sys._current_frames()[self._other])
                step = max(at for at, each in enumerate(frames) if each.name == watched.__name__)
                self._stack = "".join(traceback.format_list(frames[step + 1 :]))
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._other), ctypes.py_object(_Interrupted))
