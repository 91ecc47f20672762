"""Scripts of rehearsals: the result of each call of an effect, look-up or step.

A script is a list for each contract. Each call takes the next entry:

- a receipt: the effect is done, the look-up finds it, or the step returns it;
- `None`: the look-up does not find it (for an effect without a receipt type: the receipt);
- an exception: the body raises `NotDone`, `Refused`, `InDoubt`, or any other exception (a step is repeated);
- `WorkerLost`, `NotPickedUp`, `Late`, `After`: see each;
- an async function: called like the body itself, with the input and the `Attempt`, `LookupContext` or `StepContext`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pydantic import ValidationError

from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.states import suggestion
from perdure.contracts.steps import Step
from perdure.errors import PerdureError

Contract: TypeAlias = Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]


Calls: TypeAlias = Mapping[Any, Sequence[Any]]
"""The type of a script. Annotate a variable that holds a script with it; otherwise a type checker infers a common type
of the entries."""


class ScriptError(PerdureError):
    """The script does not fit the lifecycle, or ended before it. The message names the place."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The worker is killed in the middle of the call.

    The attempt is on record, and its outcome is unknown. An activity counts as lost after its heartbeat time-out; an
    inline one is executed again, after the time-out of the workflow task, as on a server.

    Args:
        before: whether the worker is killed before anything was recorded, so that nothing can have left.
        progress: the last progress that the worker sent to Temporal, for the next attempt.
    """

    before: bool = False
    progress: Any = None


@dataclass(frozen=True, slots=True)
class NotPickedUp:
    """No worker takes the attempt within `schedule_to_start_timeout`. Not for inline effects."""


@dataclass(frozen=True, slots=True)
class Late:
    """The worker counts as lost, but continues: its result comes late, and is recorded then.

    Args:
        what: the result of the call: a receipt, or an exception that the body raises.
        after: time from the beginning of the call to its result.
    """

    what: Any
    after: timedelta


@dataclass(frozen=True, slots=True)
class After:
    """The call takes some time.

    Args:
        duration: duration of the call. The contract's `timeout` does not end it here.
        what: any entry of a script, except `Late`.
    """

    duration: timedelta
    what: Any


class NotPerformed(BaseException):
    """A body was called past the end of its script. It is no `Exception`, which would mean a doubt."""


class Script:
    """The entries that are left, by contract.

    Raises:
        ScriptError: an entry is impossible for its contract, or the lifecycle does not declare the contract.
    """

    def __init__(self, contracts: Mapping[str, Contract], given: Calls) -> None:
        self._left: dict[Contract, list[Any]] = {contract: [] for contract in contracts.values()}
        for contract, entries in given.items():
            if contract not in self._left:
                name = getattr(contract, "name", contract)
                raise ScriptError(f"{contract!r} is not among its contracts{suggestion(str(name), contracts)}")
            for number, entry in enumerate(entries, 1):
                _check(contract, entry, f"script of {contract!r}, entry {number}")
            self._left[contract] = list(entries)

    def next(self, contract: Contract) -> Any:
        """The next entry; None also if no entry is left."""
        left = self._left[contract]
        return left[0] if left else None

    def take(self, contract: Contract, key: str, number: int) -> Any:
        """Remove and return the present entry."""
        if not self._left[contract]:
            raise NotPerformed(
                f"the script of {contract!r} is at its end, but it was called once more: "
                f"key {key!r}, {'attempt' if isinstance(contract, Effect) else 'after attempt'} {number}"
            )
        return self._left[contract].pop(0)

    def unused(self) -> dict[Contract, list[Any]]:
        """The entries that never happened."""
        return {contract: list(left) for contract, left in self._left.items() if left}


def _check(contract: Contract, entry: Any, where: str) -> None:
    if isinstance(entry, After | Late):
        if isinstance(entry.what, Late | NotPickedUp):
            raise ScriptError(f"{where}: {type(entry).__name__} can't hold {entry.what!r}")
        return _check(contract, entry.what, where)
    if isinstance(entry, NotPickedUp) and contract.inline:
        raise ScriptError(f"{where}: {contract!r} runs inline, in the worker that picked up the workflow itself")
    if isinstance(entry, WorkerLost | NotPickedUp | Exception) or callable(entry):
        return
    if entry is None and isinstance(contract, Lookup):
        return
    try:
        contract.receipt.validate_python(entry, strict=True)
    except ValidationError as error:
        raise ScriptError(f"{where}: {entry!r} is no receipt of it: {error}") from None
