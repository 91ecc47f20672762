"""A setting of the connection to Temporal that can't be used is named before any server is asked."""

from __future__ import annotations

import pytest

from perdure import App, PerdurePlugin, Settings
from perdure._worker.worker import connect
from perdure.errors import InvalidSetting


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("TEMPORAL_ADDRESS", "127.0.0.1:99999", "can't be used (invalid port number): write HOST:PORT"),
        ("TEMPORAL_ADDRESS", "127.0.0.1:grpc", "can't be used (invalid port number): write HOST:PORT"),
        ("TEMPORAL_ADDRESS", ":7233", "can't be used (empty host): write HOST:PORT"),
        ("TEMPORAL_NAMESPACE", "", "write the name of a namespace, or leave it out for 'default'"),
    ],
)
async def test_it_is_named_with_its_value_and_its_form(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSetting) as error:
        await connect(PerdurePlugin(App([], []), Settings()))
    assert str(error.value) in (f"{name}={value!r} {why}", f"{name}={value!r}: {why}")
