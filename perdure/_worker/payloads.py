"""`Payloads`: Pydantic's converter of payloads, with parts that all runs share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from temporalio import workflow
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import EncodingPayloadConverter


class Payloads(PydanticPayloadConverter):
    """Temporal's converter for Pydantic.

    The SDK makes a converter for each run, and for each of its tasks. Temporal's own converter would
    prepare the types of all values that it reads anew each time, and keep them while the run is in the cache.
    """

    def __init__(self) -> None:
        if workflow.unsafe.in_sandbox():  # the types belong to this run alone
            super().__init__()
        else:
            self.converters = _shared()


@cache
def _shared() -> Mapping[bytes, EncodingPayloadConverter]:
    return PydanticPayloadConverter().converters
