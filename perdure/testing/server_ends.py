"""What a caller of the virtual server is handed: answers of updates and queries, and how a workflow ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

EndKind: TypeAlias = Literal["completed", "failed", "cancelled", "continued", "blocked"]


@dataclass
class Answer:
    """What became of an update or a query; it changes while the workflow runs.

    `waiting` until delivered; then an update is `rejected` by its validator, or `accepted` and later
    `completed` or `failed`, and a query is `completed` or `failed`. `failure` is the reason why it was not completed.
    """

    name: str
    id: str
    data_converter: DataConverter = field(repr=False)
    status: Literal["waiting", "accepted", "rejected", "completed", "failed"] = "waiting"
    failure: BaseException | None = None
    payload: Payload | None = None

    def result(self, as_type: Any = None) -> Any:
        """The decoded result. Raises `failure` if there is one, `LookupError` while there is no result."""
        if self.failure is not None:
            raise self.failure
        if self.payload is None:
            raise LookupError(f"{self.name!r} has no result: it is {self.status}")
        return decode(self.data_converter, [self.payload], as_type and [as_type])[0]


@dataclass(frozen=True)
class RunEnd:
    """Where a workflow stands when nothing more can happen to it.

    `blocked`: it waits, and no activity, timer or message will ever wake it. `at` is virtual time, `runs`
    counts the runs chained by continue-as-new, `undelivered` names the messages whose moment never came.
    `payloads` hold the result, or the arguments to continue with. `failure` is why a failed one failed.
    """

    kind: EndKind
    at: datetime
    runs: int
    undelivered: tuple[str, ...]
    payloads: tuple[Payload, ...]
    failure: BaseException | None
    raw_memo: Mapping[str, Payload]
    data_converter: DataConverter = field(repr=False, compare=False)

    def result(self, as_type: Any = None) -> Any:
        """What the workflow returned. Raises `failure` if it failed, `LookupError` if it did not complete."""
        if self.failure is not None:
            raise self.failure
        if self.kind != "completed":
            raise LookupError(f"the workflow has no result: it is {self.kind}")
        return decode(self.data_converter, self.payloads, as_type and [as_type])[0]

    def args(self, types: list[Any] | None = None) -> list[Any]:
        """The arguments to continue with; empty unless `continued`."""
        return decode(self.data_converter, self.payloads, types) if self.kind == "continued" else []

    @property
    def memo(self) -> dict[str, Any]:
        """The memo at the end; of a workflow that continues as new, the next run's."""
        return {key: decode(self.data_converter, [value], None)[0] for key, value in self.raw_memo.items()}


def decode(converter: DataConverter, payloads: Sequence[Payload], types: list[Any] | None) -> list[Any]:
    """The values that stand in `payloads`, each read as its entry of `types`."""
    return converter.payload_converter.from_payloads(payloads, types)
