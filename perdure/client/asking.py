"""Sends updates to a running lifecycle. If the lifecycle has ended, the fence alone is changed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import temporalio.client
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from perdure._crypto.codec import client_for, encrypting_client
from perdure._crypto.private import SEALING
from perdure._crypto.sealed import bound_to
from perdure._store.postgres import Pool
from perdure._text.privacy import describe_invalid, describe_no_json
from perdure._text.shown import command
from perdure._wire.requests import SENT_AGAIN, NotParked, OperatorRequest, Resolution, TakenOver
from perdure.client.calls import Call, as_json, call
from perdure.client.reading import read_status, waiting_for_person
from perdure.client.records import EntityStatus
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.scopes import scope_setting
from perdure.contracts.sizes import LARGEST_RECEIPT, unfit
from perdure.errors import (
    AlreadyFinished,
    InvalidInput,
    NotNow,
    NotThisDatabase,
    NoWorkflow,
    TemporalUnavailable,
    UnknownKey,
    Unopenable,
)
from perdure.settings import Settings

R = TypeVar("R", bound=OperatorRequest)

PATIENCE = timedelta(seconds=20)
"""The default time to wait for the answer to an update."""


def requested(kind: type[R], entity: Entity, **given: Any) -> R:
    """A request about the entity.

    Raises:
        InvalidInput: an argument cannot be used.
    """
    try:
        return kind(**given)
    except ValidationError as error:
        raise InvalidInput(f"{entity}: {describe_invalid(error)}") from None


def receipt_data(entity: Entity, given: Any) -> Any:
    """The receipt of a person as JSON data, sealed for the entity.

    Raises:
        InvalidInput: it is no JSON data.
    """
    try:
        with bound_to(entity):
            data = to_jsonable_python(given, inf_nan_mode="constants", context=SEALING)
        to_json(data)  # a lone surrogate
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidInput(f"{entity}: the receipt is no JSON: {describe_no_json(error)}") from None
    return data


@dataclass(frozen=True, slots=True)
class Asking:
    """Sends updates to the workflow of one entity.

    Attributes:
        pool: connections to the app's database, which holds the entity's status.
        temporal_client: client of Temporal.
        config: scope and keys.
        entity: the entity.
        patience: how long to wait for an answer.
    """

    pool: Pool
    temporal_client: temporalio.client.Client | None
    config: Settings
    entity: Entity
    patience: timedelta

    async def update(self, update: str, asked: OperatorRequest, update_id: str | None = None) -> str:
        """The answer of the entity's workflow.

        Args:
            update_id: of a request that may have been sent before: its run answers it once. None = it is a new one.

        Raises:
            NotThisDatabase: the client's scope is not that of its database; nothing was sent.
            InvalidInput: the receipt is too large for Temporal.
            NotNow: the request makes no sense in the lifecycle's present state.
            NoWorkflow: no workflow of the entity is open in Temporal.
            AlreadyFinished: the entity has ended.
            UnknownKey: this process does not have the key of the entity's run; nothing was sent.
            TemporalUnavailable: no Temporal server or no worker answered, or this process does not have the key of the
                answer. Whether the request was accepted is unknown.
        """
        scope = self.config.scope or ""
        standing = await read_status(self.pool, self.entity.lifecycle, self.entity.id)
        if standing.scope not in (None, scope):  # the other scope may have a workflow of this name
            raise NotThisDatabase(
                f"{self.entity}: this database works with {scope_setting(standing.scope)}, this client with "
                f"{scope_setting(scope)}: set it right"
            )
        if standing.final:
            raise self._too_late(standing)
        if self.temporal_client is None:
            raise TemporalUnavailable(f"{update} needs Temporal: give the client temporal_client=")
        if isinstance(asked, Resolution) and (why := unfit(asked.receipt, LARGEST_RECEIPT)):
            raise InvalidInput(f"{self.entity}: the receipt {why}")
        workflow_id = self.entity.workflow_id(self.config.scope)
        try:
            client = await client_for(encrypting_client(self.temporal_client, self.config), workflow_id)
        except UnknownKey as error:  # workers might not have ours either, and its tasks would fail from then on
            raise UnknownKey(f"{self.entity}: nothing was sent, since its run can't be read here: {error}") from error
        except RPCError as error:
            raise await self._refusal(error) from error
        try:
            return await self._executed(client.get_workflow_handle(workflow_id), update, asked, update_id)
        except (WorkflowUpdateFailedError, RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            raise await self._refusal(error) from error
        except Unopenable as error:
            raise self._unread(error) from error

    async def _executed(
        self, handle: WorkflowHandle[Any, Any], update: str, asked: OperatorRequest, update_id: str | None
    ) -> str:
        """Send an update, again for a while if it was not accepted after the loss of a worker: with the same id, since
        it may have been executed all the same."""
        until = time.monotonic() + self.patience.total_seconds()
        its_id = first = update_id or str(uuid4())
        while True:
            try:
                left = timedelta(seconds=max(until - time.monotonic(), 0.1))
                return str(await handle.execute_update(update, asked, id=its_id, result_type=str, rpc_timeout=left))
            except (RPCError, WorkflowUpdateFailedError) as error:
                if time.monotonic() + 0.5 >= until or not await self._comes_too_early(error, asked):
                    raise
                if isinstance(error, WorkflowUpdateFailedError) and TakenOver.is_reason(error.cause):
                    its_id = SENT_AGAIN + first
                await asyncio.sleep(0.5)

    async def _comes_too_early(self, error: RPCError | WorkflowUpdateFailedError, asked: OperatorRequest) -> bool:
        """Whether an update was not accepted because a workflow task was lost or has failed."""
        if isinstance(error, RPCError):
            return error.status is RPCStatusCode.FAILED_PRECONDITION
        if isinstance(asked, Resolution) and NotParked.is_reason(error.cause):
            standing = await read_status(self.pool, self.entity.lifecycle, self.entity.id)
            return any(asked.means(each.effect, each.key) for each in waiting_for_person(standing))
        return TakenOver.is_reason(error.cause)

    async def earlier_answer(self, update_id: str) -> str | None:
        """The answer to a request that was accepted; None = the newest run has accepted none of this id.

        Raises:
            TemporalUnavailable: no Temporal server answered, or this process does not have the key of the answer.
        """
        if self.temporal_client is None:
            return None
        client = encrypting_client(self.temporal_client, self.config)
        handle = client.get_workflow_handle(self.entity.workflow_id(self.config.scope))
        for each in (update_id, SENT_AGAIN + update_id):
            try:
                given = handle.get_update_handle(each, result_type=str)
                return str(await given.result(rpc_timeout=self.patience))
            except WorkflowUpdateFailedError:
                return None
            except Unopenable as error:
                raise self._unread(error) from error
            except (RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
                if not (isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND):
                    raise TemporalUnavailable(f"{self.entity}: no answer from Temporal: {error}") from error
        return None

    def _unread(self, error: Unopenable) -> TemporalUnavailable:
        return TemporalUnavailable(
            f"{self.entity}: the answer can't be read, so it is not known whether that was accepted: {error}"
        )

    def _too_late(self, standing: EntityStatus) -> AlreadyFinished:
        return AlreadyFinished(f"{self.entity}: too late: already {standing.state}")

    async def _refusal(self, error: Exception) -> Exception:
        standing = await read_status(self.pool, self.entity.lifecycle, self.entity.id)
        status = error.status if isinstance(error, RPCError) else None
        refused = isinstance(error, WorkflowUpdateFailedError) or status is RPCStatusCode.NOT_FOUND
        if refused and standing.final:  # without an answer, it may be this request that has ended the entity
            return self._too_late(standing)
        if isinstance(error, WorkflowUpdateFailedError):
            cause = error.cause
            return NotNow(f"{self.entity}: {cause.message if isinstance(cause, ApplicationError) else cause}")
        if status is RPCStatusCode.NOT_FOUND and standing.waits_for_delivery:
            return NotNow(f"{self.entity} waits to be delivered to Temporal: try again in a moment")
        if status is RPCStatusCode.NOT_FOUND:
            retry = command("retry", self.entity.lifecycle, self.entity.id)
            return NoWorkflow(
                f"{self.entity}: no workflow of it is open in Temporal: `{retry}` starts it again from its record, "
                "`perdure recover` all of them"
            )
        if status in (None, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
            return TemporalUnavailable(
                f"{self.entity}: no worker answered within {self.patience.total_seconds():g} s, so it is not known "
                "whether that was accepted: check that one is running, and try again"
            )
        return TemporalUnavailable(f"{self.entity}: no answer from Temporal: {error}")


def settling(standing: EntityStatus, given: Resolution) -> Call:
    """Resolve a doubt of an entity that has no workflow any more, in the fence alone.

    Raises:
        AlreadyFinished: no effect of the entity is in doubt.
        NotNow: another attempt is in doubt than the one that is meant, or the outcome is none.
    """
    doubts = [each for each in standing.effects if each.status.unknown]
    if not doubts:
        raise AlreadyFinished(f"{standing.lifecycle}/{standing.id}: too late: already {standing.state}")
    for each in doubts:
        if given.means(each.effect, each.key) and (why := given.other_attempt(each.effect, each.attempts)):
            raise NotNow(f"{standing.lifecycle}/{standing.id}: {why}")
    if given.outcome not in (EffectStatus.DONE, EffectStatus.NOT_DONE, EffectStatus.ABANDONED):
        raise NotNow(f"{given.outcome.value!r} is not an outcome: give done, not_done or abandoned")
    entity = Entity(standing.lifecycle, standing.id)
    receipt = None if given.receipt is None else as_json(str(entity), "receipt", given.receipt)
    resolution = call(
        "resolve", entity, effect=given.effect, outcome=given.outcome.value, made_by=given.by, note=given.note
    )
    return resolution.also(receipt=receipt)
