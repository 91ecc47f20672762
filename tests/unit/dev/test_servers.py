"""`perdure dev` uses no server of another machine, by whatever way it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure._dev import servers
from perdure._dev.servers import check_local
from perdure.errors import InvalidSetting


@pytest.fixture(autouse=True)
def outside_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a name without a dot may be of any machine."""
    monkeypatch.setattr(servers, "_OF_CONTAINERS", ())


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"PERDURE_DATABASE_URL": "postgresql:///shop"},
        {"PERDURE_DATABASE_URL": "postgresql:///shop", "PGHOST": "/run/postgresql"},
        {"PERDURE_DATABASE_URL": "postgresql://ann@localhost:5433/shop", "PGHOST": "db.production.example"},
        {"PERDURE_DATABASE_URL": "postgresql://ann@[::1]:5433,127.0.0.1/shop"},
        {"PERDURE_DATABASE_URL": "postgresql://ann@%2Frun%2Fpostgresql/shop"},
        {"PERDURE_DATABASE_URL": "postgresql:///shop?host=/run/postgresql"},
        {"TEMPORAL_ADDRESS": "localhost:7233", "PGHOST": "db.production.example"},
    ],
)
def test_servers_of_this_machine_are_accepted(environment: dict[str, str]) -> None:
    check_local(environment)


@pytest.mark.parametrize(
    "environment",
    [
        {"PERDURE_DATABASE_URL": "postgresql:///shop", "PGHOST": "db.production.example"},
        {"PERDURE_DATABASE_URL": "postgresql:///shop", "PGHOST": "localhost,db.production.example"},
        {"PERDURE_DATABASE_URL": "postgresql://nosuchmachine/shop"},
        {"PERDURE_DATABASE_URL": "postgresql://localhost,192.0.2.1:5433/shop"},
        {"PERDURE_DATABASE_URL": "postgresql://ann@[2001:db8::1]:5433/shop"},
        {"PERDURE_DATABASE_URL": "postgresql:///shop?host=localhost,192.0.2.1"},
        {"PERDURE_DATABASE_URL": "postgresql:///shop?service=production"},
        {"PERDURE_COLUMN_DATABASE_URL": "postgresql://192.0.2.1/shop"},
        {"PERDURE_ERASURE_DATABASE_URL": "postgresql://192.0.2.1/shop"},
        {"TEMPORAL_ADDRESS": "192.0.2.1"},
        {"TEMPORAL_ADDRESS": "dns:///temporal.example.com:7233"},
    ],
)
def test_servers_of_another_machine_are_refused(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match=r"on this machine only|on another machine"):
        check_local(environment)


def test_a_container_beside_this_one_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "_OF_CONTAINERS", (tmp_path,))
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [(0, 0, 0, "", ("172.18.0.2", 0))])
    check_local({"PERDURE_DATABASE_URL": "postgresql://db/shop"})
    with pytest.raises(
        InvalidSetting, match=r"PERDURE_DATABASE_URL=postgresql://db\.example/shop: .* this machine only"
    ):
        check_local({"PERDURE_DATABASE_URL": "postgresql://db.example/shop"})
