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


class _Step:
    """One activation under way."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.counted_from: float | None = None
        """The processor time of the process when the watch saw it first, or interrupted it last."""
        self.stack: str | None = None
        """Where it was interrupted first."""


def watched(step: Callable[[], _T]) -> _T:
    """Return the result of `step`, which activates a workflow.

    Raises:
        RunawayWorkflow: the step was interrupted after `LONGEST`. The message has the place.
    """
    mine = _Step()
    try:
        _WATCH.begin(mine)
        try:
            result = step()
        finally:
            _WATCH.end(mine)
    except _Interrupted:
        _WATCH.end(mine)  # if the interrupt came in the line above
        _raise_runaway(mine)
        raise
    _raise_runaway(mine)
    return result


def _raise_runaway(step: _Step) -> None:
    if step.stack is not None:
        raise RunawayWorkflow(
            "the lifecycle's code ran too long without waiting: it loops for ever, or it makes a call that takes "
            f"long. It was here:\n{step.stack}"
        )


class _Watch:
    """A thread that looks at the steps under way now and then, and ends when it finds none: a step is too short, most
    often, for a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: set[_Step] = set()
        self._thread: threading.Thread | None = None

    def begin(self, step: _Step) -> None:
        """Interrupt this step after each `LONGEST`: what runs at an interrupt may catch it, as a finalizer does."""
        with self._lock:
            self._steps.add(step)
            if self._thread is None or not self._thread.is_alive():  # in a process that was forked, it is not
                self._thread = threading.Thread(target=self._look, name="perdure-rehearsal", daemon=True)
                self._thread.start()

    def end(self, step: _Step) -> None:
        """Interrupt it no longer."""
        with self._lock:
            self._steps.discard(step)

    def _look(self) -> None:
        while True:
            time.sleep(LONGEST / 10)
            with self._lock:
                if not self._steps:
                    self._thread = None
                    return
                now = time.process_time()
                for step in self._steps:
                    if step.counted_from is None:
                        step.counted_from = now
                    elif now - step.counted_from > LONGEST:
                        step.counted_from = now
                        self._interrupt(step)

    def _interrupt(self, step: _Step) -> None:
        if step.stack is None:
            frames = traceback.extract_stack(sys._current_frames()[step.thread])
            last = max(at for at, each in enumerate(frames) if each.name == watched.__name__)
            step.stack = "".join(traceback.format_list(frames[last + 1 :]))
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(step.thread), ctypes.py_object(_Interrupted))


_WATCH: Final = _Watch()
