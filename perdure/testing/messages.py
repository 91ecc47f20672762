"""Messages of a rehearsal: which update, signal or query is sent, and at which moment."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure._wire.status import LifecycleStatus
from perdure._workflow.lifecycle import Lifecycle
from perdure.client.naming import signal_text
from perdure.contracts.keys import Entity
from perdure.contracts.states import suggestion
from perdure.errors import InvalidInput
from perdure.testing.script import ScriptError
from perdure.testing.server import BLOCKED, Answer, VirtualWorkflow

CANCEL_WORKFLOW: Final = "cancel the workflow"
"""Name of the message that requests a cancellation through Temporal, as its command and Web UI do."""


class Message:
    """A message and its moment; see the subclasses.

    Args:
        name: of the update, signal or query, or `CANCEL_WORKFLOW`.
        args: what it carries.
    """

    def __init__(self, name: str, *args: Any) -> None:
        self.name = name
        self.args = args

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class At(Message):
    """At a time.

    Args:
        after: how long after the start.
        name: as for `Message`.
        args: as for `Message`.
    """

    def __init__(self, after: timedelta, name: str, *args: Any) -> None:
        super().__init__(name, *args)
        self.after = after


class When(Message):
    """As soon as a condition on the answer of the query `status` holds, maybe in the middle of an activity.

    It is looked at after each step of the workflow, once the messages before this one that have a condition too
    were sent and answered.

    Args:
        condition: of the `LifecycleStatus`.
        name: as for `Message`.
        args: as for `Message`.
    """

    def __init__(self, condition: Callable[[LifecycleStatus], bool], name: str, *args: Any) -> None:
        super().__init__(name, *args)
        self._condition = condition

    def comes(self, status: LifecycleStatus, busy: bool) -> bool:
        """Whether the moment is now; `busy` = an activity is under way."""
        return self._condition(status)


class WhenIn(When):
    """As soon as it is in a state and waits there: no activity is under way.

    Args:
        state: the state.
        name: as for `Message`.
        args: as for `Message`.
    """

    def __init__(self, state: StrEnum, name: str, *args: Any) -> None:
        super().__init__(lambda status: status.state == state.value, name, *args)

    def comes(self, status: LifecycleStatus, busy: bool) -> bool:
        """See base class."""
        return not busy and super().comes(status, busy)


class WhenParked(When):
    """As soon as an effect is parked in doubt."""

    def __init__(self, name: str, *args: Any) -> None:
        super().__init__(lambda status: any(each.parked for each in status.effects), name, *args)


class WhenBlocked(Message):
    """Once nothing else will ever happen. Several of these go out one by one."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a message.

    Attributes:
        name: of the message.
        how: `waiting` (its moment never came), `sent` (a signal), `rejected` (its validator refused it),
            `accepted` (its handler has not ended), `completed`, or `failed`.
        result: the result of a completed one.
        why: the sentence of a rejected or failed one.
    """

    name: str
    how: Literal["waiting", "sent", "rejected", "accepted", "completed", "failed"]
    result: Any = None
    why: str | None = None


class Post:
    """Hands the messages of one rehearsal to Temporal, and keeps their answers."""

    def __init__(self, entity: Entity, lifecycle: type[Lifecycle[Any, Any]], server: VirtualWorkflow) -> None:
        self._entity, self._lifecycle = entity, lifecycle
        self._defined = workflow._Definition.must_from_class(lifecycle)
        self._server = server
        self._letters: list[_Letter] = []

    def send(self, message: Message) -> None:
        """Let Temporal deliver it at its moment.

        Raises:
            ScriptError: the lifecycle has no such update, signal or query, or it takes other arguments.
        """
        letter = _Letter(message, self._letters[-1:], self._server)
        self._letters.append(letter)
        name, moment = message.name, letter.moment()
        if name == CANCEL_WORKFLOW:
            self._server.cancel("requested by the rehearsal", **moment)
        elif name in self._defined.updates:
            self._check_arguments(message, self._defined.updates[name].fn)
            letter.answer = self._server.update(f"message-{len(self._letters)}", name, *message.args, **moment)
            letter.returns = self._defined.updates[name].ret_type
        elif name in self._defined.signals:
            self._check_arguments(message, self._defined.signals[name].fn)
            self._server.signal(name, *self._as_sent(message), **moment)
        elif name in self._defined.queries:
            self._check_arguments(message, self._defined.queries[name].fn)
            letter.answer = self._server.query(name, *message.args, **moment)
            letter.returns = self._defined.queries[name].ret_type
        else:
            names = {*self._defined.updates, *self._defined.signals, *self._defined.queries}
            raise ScriptError(f"{message!r}: no update, signal or query has that name{suggestion(name, names)}")

    def answers(self, undelivered: Sequence[str]) -> list[Answered]:
        """What became of each message, in the order in which they were given."""
        left = list(undelivered)
        answers = []
        for letter in reversed(self._letters):
            label = "cancel" if letter.message.name == CANCEL_WORKFLOW else f"signal {letter.message.name}"
            if letter.answer is None and label in left:
                left.remove(label)
                answers.append(Answered(letter.message.name, "waiting"))
            else:
                answers.append(letter.answered())
        return answers[::-1]

    def _as_sent(self, message: Message) -> list[Any]:
        """The arguments of a signal, checked and sealed as by `Client.signal`, which sends one at most."""
        if len(message.args) != 1:
            return list(message.args)
        try:
            _, payload = signal_text(self._entity, self._lifecycle, message.name, message.args[0])
        except InvalidInput as error:
            raise ScriptError(f"{message!r}: {error}") from None
        return [None if payload is None else json.loads(payload)]

    def _check_arguments(self, message: Message, handler: Callable[..., Any]) -> None:
        try:
            inspect.signature(handler).bind(None, *message.args)
        except TypeError as error:
            raise ScriptError(f"{message!r}: {error}") from None


class _Letter:
    """One message on its way."""

    def __init__(self, message: Message, before: list[_Letter], server: VirtualWorkflow) -> None:
        self.message = message
        self.answer: Answer | None = None
        self.returns: Any = None
        self._sent = False
        self._before = before
        self._server = server

    def moment(self) -> dict[str, Any]:
        """In the form that Temporal requires."""
        match self.message:
            case At(after=after):
                return {"at": after}
            case When() as message:
                return {"when": lambda: self._comes(message)}
            case _:
                return {"when": BLOCKED}

    async def _comes(self, message: When) -> bool:
        if all(letter.dealt_with() for letter in self._before):
            status = await self._server.ask("status", as_type=LifecycleStatus)
            self._sent = message.comes(status, self._server.busy)
        return self._sent

    def dealt_with(self) -> bool:
        """Whether a message with a condition was sent and answered; the others hold nobody up."""
        if not isinstance(self.message, When):
            return all(letter.dealt_with() for letter in self._before)
        return self._sent and (self.answer is None or self.answer.status not in ("waiting", "accepted"))

    def answered(self) -> Answered:
        """What became of it."""
        if self.answer is None:
            return Answered(self.message.name, "sent")
        result = self.answer.result(self.returns) if self.answer.status == "completed" else None
        return Answered(self.message.name, self.answer.status, result, _sentence(self.answer.failure))


def _sentence(failure: BaseException | None) -> str | None:
    if not isinstance(failure, FailureError):
        return None if failure is None else str(failure)
    return failure.message if failure.cause is None else f"{failure.message}: {_sentence(failure.cause)}"
