"""Registers the search attributes in Temporal, and holds which of them a run that is started now may have.

A server refuses a start with an attribute that is not registered. So a run has them only where they are registered when
it is started, and shows exactly those until its end.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from perdure._services.service import EXPECTED_ERRORS, Service
from perdure._wire.indexed import ATTENTION, KEYS, STATE
from perdure.logs import log_event
from perdure.settings import Settings

log = logging.getLogger("perdure.worker")

EVERY = 60.0
"""Seconds between two looks."""
_SOON = 1.0
"""Seconds between two looks after they were registered, until lists know them."""
_RPC = timedelta(seconds=5)
_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def lacking(client: Client, keys: tuple[SearchAttributeKey[str], ...]) -> dict[str, str]:
    """Which of these the namespace does not have as a Keyword: what it has in their place, by name; '' = nothing."""
    asked = ListSearchAttributesRequest(namespace=client.namespace)
    seen = await client.operator_service.list_search_attributes(asked, timeout=_RPC)
    known = {**seen.system_attributes, **seen.custom_attributes}
    found = {key.name: known.get(key.name) for key in keys}
    return {
        name: "" if kind is None else IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").title()
        for name, kind in found.items()
        if kind != _KEYWORD
    }


class Indexing(Service):
    """Registers the attributes that are missing, if it has the right to, and holds which are registered.

    Args:
        client: Temporal.
        settings: which attributes are requested.
    """

    def __init__(self, client: Client, settings: Settings) -> None:
        super().__init__("search attributes", EVERY)
        self._client = client
        self._keys = KEYS[settings.search_attributes]
        self._known = False
        self._not_before = 0.0
        self._warned = False
        self._registered: list[str] = []
        """Those that this process has registered, until they are known."""

    async def start(self) -> None:
        """Begin, with a first look: what is delivered right after it has them where they are registered."""
        with suppress(*EXPECTED_ERRORS):
            await self.once()
        await super().start()

    async def once(self) -> bool:
        """Look what is registered, and register what is missing."""
        if not self._keys:
            return False
        missing = await lacking(self._client, self._keys)
        if not missing and time.monotonic() >= self._not_before:
            if not await self._usable():
                self.every = _SOON
                return False
            self._known, self.every = True, EVERY
            if self._registered:
                log_event(log, "search attributes are registered", names=", ".join(self._registered))
                self._registered = []
        elif missing and not any(missing.values()):
            await self._register(list(missing))
        elif missing:
            self._log(", ".join(f"{name} is a {kind}" for name, kind in missing.items() if kind))
        return False

    @property
    def known(self) -> bool:
        """Whether a run that begins now can show there why it needs a person."""
        return self._known and ATTENTION in self._keys

    def attributes(self, state: str) -> TypedSearchAttributes:
        """What a run has from the start that begins now, in this state."""
        shown = [SearchAttributePair(STATE, state)] if self._known and STATE in self._keys else []
        return TypedSearchAttributes(shown)

    def refused(self) -> None:
        """A server did not know them: none for a while."""
        self._known, self._not_before = False, time.monotonic() + EVERY

    async def _usable(self) -> bool:
        """Whether the server takes those that are registered: for some seconds, its caches may not have them."""
        try:
            for key in self._keys:
                await self._client.count_workflows(f"{key.name} = 'x'", rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                return False
            raise
        return True

    async def _register(self, missing: list[str]) -> None:
        asked = AddSearchAttributesRequest(
            namespace=self._client.namespace, search_attributes=dict.fromkeys(missing, _KEYWORD)
        )
        try:
            await self._client.operator_service.add_search_attributes(asked, timeout=_RPC)
        except RPCError as error:
            self._log(error.message)
        else:
            self._registered, self.every = missing, _SOON

    def _log(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            what = "runs can't be found by their search attributes: perdure doctor"
            log_event(log, what, level=logging.WARNING, why=why)
