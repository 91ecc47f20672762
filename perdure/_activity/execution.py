"""The activity side: one shared body around every effect and every look-up.

Fence, call, outcome, in that order. The author's body is called only after its attempt is on record. Its result, also
an exception, is returned as a value, so that the workflow can decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import ValidationError

from perdure import _faults as faults
from perdure._crypto.private import CHECKING, SEALING
from perdure._crypto.sealed import bound_to
from perdure._text.privacy import describe, format_error
from perdure._wire.orders import AttemptOrder, CallResult, LookupOrder, Report, StepOrder
from perdure._wire.writes import Answer, EffectView, Fence, FenceOp, Gate, Store, Verdict, Write, storable
from perdure.contracts.attempt import USELESS, Attempt, LookupContext
from perdure.contracts.dumping import dump, load
from perdure.contracts.effects import Effect, Lookup, first_problem
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import EffectStatus, InDoubt, NotDone, Refused
from perdure.contracts.sizes import ELSEWHERE, LARGEST_RECEIPT, TOO_DEEP, is_too_deep, size_of
from perdure.contracts.spans import LONGEST
from perdure.contracts.steps import Step, StepContext
from perdure.errors import (
    DatabaseUnavailable,
    RefusedWrite,
    StepFailed,
    TemporalUnavailable,
    TooLarge,
    UnstorableWrite,
)
from perdure.logs import log_event
from perdure.telemetry import traces

PATIENCE = 4.0
"""Seconds that one commit of an attempt may take; three of them fit into `BOOKKEEPING`."""
STOPPED = "the worker is stopping"
A_MOMENT = 0.2
"""Seconds that a process needs to read what arrived while it was frozen."""

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

log = logging.getLogger("perdure.effects")


class Host(Protocol):
    """The surroundings of an execution: a Temporal activity, or a rehearsal."""

    def heartbeat(self, progress: Any) -> None:
        """Send Temporal a heartbeat with the progress."""

    def stopping(self) -> asyncio.Future[None]:
        """A future that is done when a call must end: the worker has received a request to stop and the grace time is
        over, or the workflow makes the next attempt. Whoever awaits it cancels it afterwards."""

    @property
    def heartbeat_every(self) -> float | None:
        """Seconds between two heartbeats; None = Temporal expects none."""

    @property
    def stop_asked(self) -> bool:
        """Whether the worker has received a request to stop. It begins no new call then."""

    @property
    def now(self) -> datetime:
        """The time of day by the worker's clock."""

    def boot_clock(self) -> float:
        """Seconds of the clock by which a call must have ended; see `attempt.boot_clock`."""

    @property
    def resources(self) -> Any:
        """The resources that bodies share."""


Body = Callable[[Any, Attempt], Awaitable[Any]]
Answerer = Callable[[Any, LookupContext], Awaitable[Any]]
Taker = Callable[[Any, StepContext], Awaitable[Any]]


async def attempt(effect: Effect[Any, Any], body: Body, order: AttemptOrder, store: Store, host: Host) -> Report:
    """Make one attempt: record it, call the body, record the outcome."""
    pulse = Pulse(host, order.progress)
    async with pulse.beating():
        with bound_to(_entity(order.write)):
            return await _attempt(effect, body, order, store, host, pulse)


async def ask(find: Lookup[Any, Any], body: Answerer, order: LookupOrder, store: Store, host: Host) -> Report:
    """Make one look-up. The fence is read before it, so that a miss counts only if no attempt could be in flight."""
    async with Pulse(host).beating():
        with bound_to(_entity(order.write)):
            return await _ask(find, body, order, store, host)


async def _attempt(
    effect: Effect[Any, Any], body: Body, order: AttemptOrder, store: Store, host: Host, pulse: Pulse
) -> Report:
    token = secrets.token_hex(16)
    assert order.write.fence is not None
    key = Key(order.write.fence.key)
    try:
        given = load(effect.input, order.input, context=CHECKING)
    except ValidationError as error:
        why = f"this worker can't read the input: {first_problem(error)}"
        log_event(log, "not called", level=logging.WARNING, key=key, attempt=order.number, why=why)
        return _unbegun(token, why)
    if host.stop_asked:
        return _unbegun(token, STOPPED, made=False)
    asked_at = host.boot_clock()
    useless_at = None if order.expires_at is None else asked_at + (order.expires_at - host.now).total_seconds()
    if useless_at is not None and asked_at >= useless_at:  # the order waited for a worker until then
        return _unbegun(token, USELESS)
    fence = order.write.fence.model_copy(
        update={"token": token, "digest": digest(order.input), "in_flight": order.timeout}
    )
    try:
        answer = await store.write(order.write.model_copy(update={"fence": fence}), patience=PATIENCE)
    except (DatabaseUnavailable, TemporalUnavailable) as error:
        # No answer = no call. The attempt may be on record all the same, so the report has the token.
        return _unbegun(token, str(error), made=False).model_copy(update={"recorded": False})
    except RefusedWrite as error:
        return _unbegun(token, str(error))
    if standing := _no_call(answer, token):
        log_event(log, "not called", key=key, attempt=order.number, outcome=standing.result.value)
        return standing
    view = answer.effect or EffectView()
    # Counted from before the commit, so the time is never later than the recorded one.
    ends_at = asked_at + min(order.timeout, max(view.in_flight, 0.0))
    the_attempt = Attempt(
        key=key,
        number=view.attempts,
        first_at=view.first_at or datetime.now(UTC),
        ends_at=ends_at,
        progress=order.progress,
        lookup_hint=view.lookup_hint,
        headers=traces.headers(),
        resources=host.resources,
        useless_at=useless_at,
        _note=lambda lookup_hint: _note(store, order.write, fence, lookup_hint),
        _clock=host.boot_clock,
    )
    pulse.attempt = the_attempt
    report = await _call(effect, body, given, the_attempt, token, host, order.timeout)
    report.late = answer.gate is Gate.LATE
    faults.point("after the call of", effect.name)
    log_event(log, "attempt ended", key=key, attempt=view.attempts, outcome=report.result.value, why=report.why)
    return await _put_on_record(report, order.write, fence, store, answer.version, order.then)


async def _ask(find: Lookup[Any, Any], body: Answerer, order: LookupOrder, store: Store, host: Host) -> Report:
    assert order.write.fence is not None
    key = Key(order.write.fence.key)
    try:
        answer = await store.write(order.write, patience=PATIENCE)
    except (DatabaseUnavailable, RefusedWrite) as error:
        return Report(result=CallResult.UNREAD, token="", why=str(error))
    view = answer.effect or EffectView()
    if not view.in_doubt:
        return Report(result=CallResult.STANDING, token=view.token or "", effect=view, version=answer.version)
    believable = view.in_flight + order.visibility_delay <= 0
    question = LookupContext(key, view.first_at or datetime.now(UTC), view.attempts, view.lookup_hint, host.resources)
    report = Report(
        result=CallResult.MISS, token=view.token or "", effect=view, believable=believable, version=answer.version
    )
    try:
        given = load(find.input, order.input, context=CHECKING)
        faults.point("before the look-up", find.name)
        found = await _until_stop(body(given, question), order.timeout, host)
        faults.point("after the look-up", find.name)
        receipt = None if found is None else _dumped(find, found)
        if receipt is not None:  # on record, a receipt that nobody can read would end the doubt for good
            load(find.receipt, receipt)
    except Exception as error:  # any exception means that the look-up could not answer
        log_event(log, "look-up gives no answer", key=key, why=describe(error), lookup=find.name)
        return report.model_copy(update={"result": CallResult.UNANSWERED, "why": describe(error)})
    outcome = "hit" if receipt is not None else "miss" if believable else "early"
    log_event(log, "looked up", key=key, lookup=find.name, outcome=outcome)
    if receipt is None:
        return report
    fence = order.write.fence.model_copy(
        update={"token": view.token or "", "by": "look-up", "why": "found by the look-up"}
    )
    hit = report.model_copy(update={"result": CallResult.DONE, "receipt": receipt})
    return await _put_on_record(hit, order.write, fence, store, answer.version)


async def take(step: Step[Any, Any], body: Taker, order: StepOrder, store: Store, host: Host) -> Report:
    """Take a step if the entity is open in this database: not in a copy of it, and not after the entity's end.

    Raises:
        StepFailed: the step must be repeated.
        DatabaseUnavailable: the database gave no answer. The step must be repeated too.
    """
    async with Pulse(host).beating():
        with bound_to(_entity(order.write)):
            return await _take(step, body, order, store, host)


async def _take(step: Step[Any, Any], body: Taker, order: StepOrder, store: Store, host: Host) -> Report:
    write = order.write
    answer = await store.write(write, patience=PATIENCE)
    if answer.gate.over:
        return Report(result=CallResult.OVER, token="", state=answer.state, version=answer.version)
    occasion = StepContext(_entity(write), host.resources)
    try:
        given = load(step.input, order.input, context=CHECKING)
        result = await _until_stop(body(given, occasion), order.timeout, host)
        receipt = _dumped(step, result)
        if (size := size_of(receipt)) > LARGEST_RECEIPT:
            why = f"what it returned has {size} bytes, and may have {LARGEST_RECEIPT}: {ELSEWHERE}"
            raise StepFailed(f"{step.name}: {why}")
    except InDoubt as stopped:
        raise StepFailed(f"{step.name}: {stopped.why}") from None
    except StepFailed:
        raise
    except TimeoutError:
        raise StepFailed(f"{step.name}: not done within {order.timeout:g} s") from None
    except Exception as error:
        log_event(log, "step failed", entity=str(occasion.entity), step=step.name, why=describe(error))
        raise StepFailed(f"{step.name}: {describe(error)}") from None  # its cause may quote the input
    return Report(result=CallResult.DONE, token="", receipt=receipt, version=answer.version)


async def keep(write: Write, store: Store, patience: float) -> Answer:
    """Commit a write of the workflow's own. Payloads that PostgreSQL cannot store are left out, and the record notes
    that. A write that PostgreSQL refuses for another reason keeps its payloads.

    Raises:
        DatabaseUnavailable: the database gave no answer.
        RefusedWrite: the write was not committed.
    """
    try:
        return await store.write(write, patience=patience)
    except UnstorableWrite as error:
        return await store.write(_without_payloads(write, str(error)), patience=patience)


def _entity(write: Write) -> Entity:
    return Entity(write.lifecycle, write.id, write.generation)


def digest(data: Any) -> str:
    """SHA-256, in hex, of the input's canonical JSON: the same bytes for every attempt."""
    return hashlib.sha256(_CANONICAL.encode(data).encode("utf-8", "surrogatepass")).hexdigest()


def _unbegun(token: str, why: str, *, made: bool = True) -> Report:
    """The report of an execution that began no attempt. An earlier execution of an inline order may have begun one."""
    return Report(result=CallResult.NOT_DONE, token=token, why=why, begun=False, counts=False, made=made)


def _no_call(answer: Answer, token: str) -> Report | None:
    """The report of an attempt that must not be made; None if it can be made."""
    if answer.verdict in (Verdict.FRESH, Verdict.MINE):
        return None
    result = CallResult.STANDING
    if answer.gate.over:
        result = CallResult.OVER
    elif answer.verdict is Verdict.DIFFERENT:
        result = CallResult.DIFFERENT
    why = "the other side drops repeats no longer" if answer.verdict is Verdict.OVER else None
    return Report(
        result=result,
        token=token,
        effect=answer.effect,
        why=why,
        state=answer.state,
        version=answer.version,
        begun=False,
    )


async def _call(
    effect: Effect[Any, Any], body: Body, given: Any, the_attempt: Attempt, token: str, host: Host, timeout: float
) -> Report:
    if host.stop_asked:
        return Report(result=CallResult.NOT_DONE, token=token, why=STOPPED, made=False)
    report = Report(result=CallResult.IN_DOUBT, token=token)
    try:
        if the_attempt.remaining <= 0:
            raise NotDone("its time was over before the call", counts=False)
        faults.point("before the call of", effect.name)
        returned = await _until_stop(body(given, the_attempt), the_attempt.remaining, host)
        report = Report(result=CallResult.DONE, token=token, **_kept(effect, returned))
    except NotDone as no:
        after = min(no.retry_after, LONGEST).total_seconds() if no.retry_after else None
        report = Report(result=CallResult.NOT_DONE, token=token, why=no.why, retry_after=after, counts=no.counts)
    except Refused as no:
        report = Report(result=CallResult.REFUSED, token=token, why=no.why)
    except InDoubt as doubt:
        report.why = doubt.why
    except TimeoutError:
        report.why = f"no answer within {timeout:g} s"
    except Exception as error:  # any other exception may have come after the bytes left
        report.why = describe(error)
        if not isinstance(error, OSError):  # a broken connection needs no traceback
            log.warning("the body of %s raised a %s\n%s", effect.name, type(error).__name__, format_error(error))
    report.progress, report.why = the_attempt.latest, storable(report.why)
    return report


async def _until_stop(call: Awaitable[Any], timeout: float, host: Host) -> Any:
    """Await `call` for at most `timeout` seconds, and no longer than the worker's grace time."""
    calling, stop = asyncio.ensure_future(call), host.stopping()
    over_at = host.boot_clock() + timeout
    try:
        await asyncio.wait({calling, stop}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done() and host.boot_clock() > over_at + A_MOMENT:
            # The process was frozen, and an unread reply may have arrived. `before_first_byte` refuses a request that
            # has not left yet.
            await asyncio.wait({calling}, timeout=A_MOMENT)
        if calling.done():
            if calling.cancelled():  # by the body: a cancel of this execution is raised above
                raise InDoubt("the body ended with a CancelledError of its own")
            return calling.result()
        stopped = stop.done()
        calling.cancel()
        # The call may succeed or raise NotDone while it is being cancelled, but it must not delay a stop.
        await asyncio.wait({calling}, timeout=0.5)
        if calling.done() and not calling.cancelled():
            return calling.result()
        raise InDoubt("the worker stopped in the middle") if stopped else TimeoutError
    finally:
        stop.cancel()
        if not calling.done():
            calling.cancel()


class Pulse:
    """Heartbeats from the first line of an execution to the last, so that a slow database is not taken for a lost
    worker."""

    def __init__(self, host: Host, progress: Any = None) -> None:
        self.attempt: Attempt | None = None
        self._host = host
        self._progress = progress

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        if (every := self._host.heartbeat_every) is None:
            yield
            return
        task = asyncio.create_task(self._beat(every))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _beat(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)  # first: a heartbeat is an action on Temporal's bill, and short calls need none
            latest = self.attempt.latest if self.attempt else None
            self._host.heartbeat(self._progress if latest is None else latest)


async def _put_on_record(
    report: Report, write: Write, begun: Fence, store: Store, version: int, then: Write | None = None
) -> Report:
    status = EffectStatus(report.result.value)
    fence = begun.model_copy(
        update={
            "op": FenceOp.OUTCOME,
            "status": status,
            "receipt": report.receipt,
            "why": storable(report.why) or begun.why,
        }
    )
    moves = then is not None and status is EffectStatus.DONE
    alone = {"move": None, "column": None, "input": None, "fence": fence}
    order = then.model_copy(update={"fence": fence}) if then and moves else write.model_copy(update=alone)
    try:
        answer = await keep(order, store, PATIENCE)
    except (DatabaseUnavailable, RefusedWrite):
        # The workflow records the outcome when PostgreSQL is back. The receipt reaches it through Temporal. Without its
        # receipt a done effect could not continue for ever, so it is in doubt: its policy, or a person, finds another.
        if (size := size_of(report.receipt)) > LARGEST_RECEIPT:
            lost = f"its receipt of {size} bytes was lost: PostgreSQL was away, and Temporal accepts {LARGEST_RECEIPT}"
            report = report.model_copy(update={"result": CallResult.IN_DOUBT, "receipt": None, "why": lost})
        return report.model_copy(update={"recorded": False, "version": version})
    view = answer.effect or EffectView(status=status, token=begun.token)
    if status is EffectStatus.DONE and view.receipt is None and view.too_large is None:
        view = _fitting(view.model_copy(update={"receipt": report.receipt}))
    moved = moves and answer.gate is Gate.OPEN
    seen = {"effect": view, "state": answer.state, "version": answer.version}
    return report.model_copy(update={**seen, "receipt": None, "moved": moved})


async def _note(store: Store, write: Write, begun: Fence, lookup_hint: Any) -> None:
    fence = begun.model_copy(update={"op": FenceOp.NOTE, "lookup_hint": lookup_hint})
    await store.write(
        write.model_copy(update={"move": None, "column": None, "input": None, "fence": fence}),
        patience=PATIENCE,
    )


def _without_payloads(write: Write, problem: str) -> Write:
    """The write without its payloads: NUL and lone surrogates must not stop the lifecycle. The audit trail notes the
    loss."""
    note = f"(not stored: {problem})"[:500]
    move = write.move and write.move.model_copy(
        update={
            "snapshot": None,
            "acknowledged": 0,
            "memory": None,
            "why": storable(f"{write.move.why or ''} {note}"),
            "attention": write.move.attention or note,
        }
    )
    fence = write.fence and write.fence.model_copy(update={"receipt": None, "lookup_hint": None, "why": note})
    return write.model_copy(update={"input": None, "move": move, "fence": fence})


def _dumped(contract: Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any], returned: Any) -> Any:
    """The result of a body, as JSON data. A warning of Pydantic would quote the value.

    Raises:
        TooLarge: it is nested too deep to be read back.
        InvalidInput: JSON does not have one of its numbers.
    """
    data = dump(contract.receipt.serializer, returned, context=SEALING, warnings=False)
    if is_too_deep(data):
        raise TooLarge(f"what {contract.name} returned {TOO_DEEP}")
    return data


def _kept(effect: Effect[Any, Any], returned: Any) -> dict[str, Any]:
    """The receipt of an effect that is done. If the receipt cannot be stored, the effect is done nevertheless."""
    try:
        return {"receipt": _dumped(effect, returned)}
    except Exception as error:
        log_event(log, "the receipt can't be kept", level=logging.ERROR, effect=effect.name, why=describe(error))
        return {"receipt": None, "why": f"done; what the body returned can't be kept: {describe(error)}"}


class Fitting:
    """A store whose answers fit into Temporal; see `Store`.

    A receipt that is too large stays in the database, and the answer has its size instead. Later code may declare a
    smaller receipt, so each answer reads the recorded receipt by the present contract.

    Args:
        store: the store of all receipts.
        contract: returns the contract of an effect by its name.
    """

    def __init__(self, store: Store, contract: Callable[[str], Effect[Any, Any] | None]) -> None:
        self._store = store
        self._contract = contract

    async def write(self, write: Write, *, patience: float) -> Answer:
        answer = await self._store.write(write, patience=patience)
        if answer.effect is None or write.fence is None or answer.effect.receipt is None:
            return answer
        effect = self._contract(write.fence.effect.partition("/")[0])
        with bound_to(_entity(write)):
            return answer.model_copy(update={"effect": _fitting(answer.effect, effect)})


def _fitting(view: EffectView, effect: Effect[Any, Any] | None = None) -> EffectView:
    size = size_of(view.receipt)
    if size <= LARGEST_RECEIPT:
        return view
    if effect is not None:
        try:
            smaller = _dumped(effect, load(effect.receipt, view.receipt))
        except Exception as error:  # today's code cannot use the receipt, as if it were too large
            log_event(log, "a receipt that is too large can't be read", effect=effect.name, why=describe(error))
        else:
            if size_of(smaller) <= LARGEST_RECEIPT:
                return view.model_copy(update={"receipt": smaller})
    return view.model_copy(update={"receipt": None, "too_large": size})
