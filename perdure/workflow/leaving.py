"""Ways to leave the author's `run` from inside, and the workflow."""

from __future__ import annotations

from typing import NoReturn

from temporalio.exceptions import ApplicationError


class Leave(BaseException):
    """Leaves the author's `run` from inside; not an `Exception`, so that no handler there swallows it."""


class Renewal(Leave):
    """The history is long: go on in a new run."""


class Cancelled(Leave):
    """Somebody asked for the end."""


class Overtaken(Leave):
    """The database knows a final state, or a newer round."""

    def __init__(self, state: str | None, round: int = 0) -> None:
        super().__init__(state)
        self.state = state
        self.round = round


def fail(message: str, kind: str) -> NoReturn:
    """End the workflow: no later deploy could make this start right."""
    raise ApplicationError(message, type=kind, non_retryable=True)
