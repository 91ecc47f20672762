"""The converter of payloads: what it prepares to read a type is prepared once for all runs."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from temporalio import workflow
from temporalio.client import ClientConfig
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import DataConverter

from perdure import App, PerdurePlugin, Settings
from perdure._worker.payloads import Payloads


class Letter(BaseModel):
    """What a run reads."""

    text: str


def test_each_run_reads_a_type_with_what_the_first_has_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Any] = []

    def adapter(kind: Any) -> TypeAdapter[Any]:
        prepared.append(kind)
        return TypeAdapter(kind)

    monkeypatch.setattr("temporalio.contrib.pydantic.TypeAdapter", adapter)
    shared = PydanticPayloadConverter().converters
    monkeypatch.setattr("perdure._worker.payloads._shared", lambda: shared)
    payload = Payloads().to_payload(Letter(text="Well said."))
    assert [Payloads().from_payload(payload, Letter) for _ in range(3)] == [Letter(text="Well said.")] * 3
    assert prepared == [Letter]


def test_a_type_of_a_run_in_the_sandbox_goes_with_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow.unsafe, "in_sandbox", lambda: True)

    def run() -> weakref.ref[type]:
        kind = type("Letter", (Letter,), {})
        converter = Payloads()
        assert converter.from_payload(converter.to_payload({"text": "a"}), kind).text == "a"
        return weakref.ref(kind)

    gone = run()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("given", [None, DataConverter.default, pydantic_data_converter])
def test_a_client_of_the_plugin_has_it_in_place_of_temporals(given: DataConverter | None) -> None:
    config = ClientConfig(interceptors=[], data_converter=given)  # type: ignore[typeddict-item]
    made = PerdurePlugin(App([], []), Settings()).configure_client(config)
    assert made["data_converter"].payload_converter_class is Payloads


def test_a_converter_of_ones_own_stays() -> None:
    class Own(PydanticPayloadConverter):
        pass

    given = replace(pydantic_data_converter, payload_converter_class=Own)
    config = ClientConfig(interceptors=[], data_converter=given)  # type: ignore[typeddict-item]
    made = PerdurePlugin(App([], []), Settings()).configure_client(config)
    assert made["data_converter"].payload_converter_class is Own
