"""Temporal's server gets the PostgreSQL that Perdure's own connections use, or the URL is refused."""

from __future__ import annotations

import os

import pytest

from perdure._machine.addresses import role_database, server_database
from perdure.errors import InvalidSetting
from perdure.servers.temporal_on_postgres import MAIN, tool_environment


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of libpq's is set."""
    for name in [each for each in os.environ if each.startswith("PG")]:
        monkeypatch.delenv(name)


def test_a_url_becomes_the_variables_of_temporal() -> None:
    found = server_database("X", "postgresql://ann:p%40ss@db.example:5433/shop?sslmode=verify-full&sslrootcert=/ca.pem")
    assert (found.host, found.port, found.user, found.password) == ("db.example", 5433, "ann", "p@ss")
    assert found.tls == {"SQL_TLS_ENABLED": "true", "SQL_HOST_VERIFICATION": "true", "SQL_CA": "/ca.pem"}
    assert tool_environment(found, MAIN)["SQL_TLS_CA_FILE"] == "/ca.pem"
    assert tool_environment(found, MAIN)["SQL_TLS_DISABLE_HOST_VERIFICATION"] == "false"
    assert "p@ss" not in repr(found)
    assert server_database("X", "postgresql:///shop?host=/run/postgresql").host == "127.0.0.1"
    assert server_database("X", "postgresql://%2Frun%2Fpostgresql/shop").host == "127.0.0.1"


def test_parameters_of_a_url_become_the_variables_of_temporal() -> None:
    found = server_database("X", "postgresql:///temporal?host=db&port=5433&user=ann&password=p%2540ss")
    assert (found.host, found.port, found.user, found.password) == ("db", 5433, "ann", "p%40ss")


def test_the_variables_of_libpq_apply_where_the_url_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"PGHOST": "db", "PGPORT": "5433", "PGUSER": "ann", "PGPASSWORD": "p%40ss", "PGSSLMODE": "verify-full"}
    for name, value in {**given, "PGSSLROOTCERT": "/ca.pem"}.items():
        monkeypatch.setenv(name, value)
    found = server_database("X", "postgresql:///shop")
    assert (found.host, found.port, found.user, found.password) == ("db", 5433, "ann", "p%40ss")
    assert found.tls == {"SQL_TLS_ENABLED": "true", "SQL_HOST_VERIFICATION": "true", "SQL_CA": "/ca.pem"}
    found = server_database("X", "postgresql://bob:other@here:1/shop?sslmode=disable")
    assert (found.host, found.port, found.user, found.password, found.tls) == ("here", 1, "bob", "other", {})


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://a,b/shop", "Temporal takes one host"),
        ("postgresql://ann:M4RK%22@db/shop", "Temporal takes no user or password with"),
        ("postgresql://db/shop?sslmode=perhaps", "sslmode='perhaps'"),
        ("postgresql://db:port/shop", "can't be read"),
        ("postgresql://:M4RK@/shop?host=/run/postgresql&port=5432,5433", "the port '5432,5433' is no number"),
        ("postgresql://:M4RK@/shop?service=shop", "Temporal reads no service file"),
        ("postgresql://ann@db/shop?passfile=/run/pgpass", "Temporal reads no password file"),
    ],
)
def test_a_url_that_temporal_can_not_use_is_refused_without_its_password(url: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^X.*{why}") as error:
        role_database("X", url)
    assert "M4RK" not in str(error.value)


def test_the_password_of_a_role_that_temporal_never_uses_may_have_any_character() -> None:
    found = server_database("X", "postgresql://shop:a%7Bb%22c@127.0.0.1/shop?passfile=/run/pgpass")
    assert found.host == "127.0.0.1"
