"""What the core calls of the class that an author wrote; `Lifecycle` has it."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, TypeAdapter

from perdure._wire.requests import OperatorRequest
from perdure.contracts.effects import Effect
from perdure.contracts.states import States


class Author(Protocol):
    """The author's lifecycle, as its run sees it; see `Lifecycle` for the meaning of each member."""

    effects: ClassVar[tuple[Effect[Any, Any], ...]]
    search_attribute: ClassVar[str | None]
    declared: ClassVar[States[Any]]
    input: ClassVar[TypeAdapter[Any]]

    def snapshot(self) -> BaseModel | None:
        """What `run` must find again when it is started from its top."""

    async def cancelling(self, asked: OperatorRequest) -> None:
        """What it does between a cancel and its end."""
