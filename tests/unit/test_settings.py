"""No representation of the settings shows a database password, however the URL is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import perdure
from activities.mail.settings import MailSettings
from activities.telephony.settings import TelephonySettings
from activities.web_jobs.settings import WebSettings
from perdure import Settings
from perdure._store.postgres import Database
from perdure.errors import DatabaseUnavailable, InvalidSetting
from perdure.settings import _BESIDE, _FORMS, misspelt, settings, without_passwords

MARK = "M4RK"
CODE = Path(perdure.__file__).parent


def test_each_setting_with_a_pattern_has_its_form_in_words() -> None:
    fields = Settings.model_json_schema()["properties"]
    assert set(_FORMS) == {
        f"PERDURE_{name.upper()}" for name, field in fields.items() if '"pattern"' in json.dumps(field)
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:M4RK@db:5432/shop", "postgresql://ann@db:5432/shop"),
        ("postgresql://ann:M4RK@a:1,b:2/shop?sslmode=require", "postgresql://ann@a:1,b:2/shop"),
        ("postgresql://ann@[::1]:5432/shop?password=M4RK&sslpassword=M4RK", "postgresql://ann@[::1]:5432/shop"),
        ("postgresql:///shop?host=/run/postgresql&password=M4RK", "postgresql:///shop"),
        ("postgresql://localhost/postgres", "postgresql://localhost/postgres"),
        ("postgresql://ann:a@M4RK@db/shop", "postgresql://***"),
        ("postgresql://ann:a/M4RK@db/shop", "postgresql://***"),
        ("postgresql://ann:a?M4RK@db/shop", "postgresql://***"),
        ("postgresql://ann:a#M4RK@db/shop", "postgresql://***"),
        ("postgresql://ann:[M4RK@db/shop", "postgresql://***"),
        ("postgresql://ann:M4RK", "postgresql://***"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, shown: str) -> None:
    assert without_passwords(url) == shown
    config = Settings(database_url=url)
    assert config.database_url == config.model_copy(update={"scope": "a"}).database_url == url
    assert shown in repr(config)
    assert MARK not in f"{config!r}{config}{config.model_dump()}{config.model_dump_json()}"
    assert json.loads(config.model_dump_json())["database_url"] == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:M4RK/x@127.0.0.1:1/shop",
        "postgresql://ann:a?M4RK@127.0.0.1:1/shop",
        "postgresql://ann:a#M4RK@127.0.0.1:1/shop",
        "postgresql://ann:[M4RK@127.0.0.1:1/shop",
        "postgresql://ann:M4RK",
        "postgresql://ann:M4RK@127.0.0.1:1/shop?sslmode=M4RK",
        "postgresql://ann:M4RK@127.0.0.1:65536/shop",
        "postgresql://ann:M4RK@127.0.0.1:-1/shop",
    ],
)
async def test_a_url_that_can_not_be_used_is_not_quoted(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^PERDURE_DATABASE_URL=postgresql://") as error:
        await Database(url).open()
    chain = [error.value, error.value.__cause__]
    assert MARK not in "".join(map(str, chain))


async def test_a_port_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidSetting) as error:
        await Database("postgresql://ann:M4RK@127.0.0.1:65536/shop").open()
    why = "PERDURE_DATABASE_URL=postgresql://ann@127.0.0.1:65536/shop can't be used: a port is 0 to 65535"
    assert str(error.value) == why


@pytest.mark.parametrize("url", ["postgresql://ann:[M4RK@127.0.0.1:1/shop", "postgresql://ann:M4RK@127.0.0.1:1/shop"])
async def test_the_setting_that_the_url_comes_from_is_named(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://bob@127.0.0.1:1/shop")
    monkeypatch.setenv("PERDURE_COLUMN_DATABASE_URL", url)
    config = settings()
    for given, name in (
        (config.column_database_url, "PERDURE_COLUMN_DATABASE_URL"),
        (config.database_url, "set PERDURE_DATABASE_URL"),
    ):
        assert given is not None
        with pytest.raises((InvalidSetting, DatabaseUnavailable)) as error:
            await Database(given).open(patience=0)
        assert name in str(error.value)
        assert MARK not in str(error.value)


def test_a_setting_that_is_no_url_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", f"mysql://ann:{MARK}@db")
    with pytest.raises(InvalidSetting, match=r"^PERDURE_DATABASE_URL=\*\*\*: ") as error:
        settings()
    assert MARK not in str(error.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("DATABASE_URI", "DATABASE_URL"),
        ("DATABASE", "DATABASE_URL"),
        ("TASKQUEUE", "TASK_QUEUE"),
        ("LOGLEVEL", "LOG_LEVEL"),
        ("KEY", "KEYS"),
        ("APPS", "APP"),
        ("CONSOLE_ODIC_SECRET", "CONSOLE_OIDC_SECRET"),
    ],
)
def test_a_misspelt_variable_is_found_unless_the_right_one_is_set_too(given: str, meant: str) -> None:
    given, meant = f"PERDURE_{given}", f"PERDURE_{meant}"
    assert misspelt({given: "x", "OTHER": "x"}) == {given: meant}
    assert misspelt({given: "x", meant: "x"}) == {}


def test_no_variable_of_an_application_or_of_kubernetes_counts_as_misspelt() -> None:
    words = ("", "_WORKER", "_RELAY", "_CONSOLE", "_METRICS", "_HEALTH", "_WEB", "_KEYS")
    port = ("PORT", "PORT_8484_TCP", "PORT_8484_TCP_PROTO", "PORT_8484_TCP_PORT", "PORT_8484_TCP_ADDR")
    of_service = (*port, "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP")
    theirs = [f"PERDURE{word}_{name}" for word in words for name in of_service]
    for kind in (MailSettings, WebSettings, TelephonySettings):
        theirs += [f"{kind.model_config['env_prefix']}{name.upper()}" for name in kind.model_fields]
    theirs += ["PERDURE_SHOP_DATABASE_URL", "PERDURE_BILLING_LOG", "PERDURE_UP", "PERDURE_DEV"]
    assert misspelt(dict.fromkeys(theirs, "x")) == {}


def test_each_variable_that_the_library_reads_is_known() -> None:
    text = "".join(each.read_text() for each in CODE.rglob("*.py") if each.name != "settings.py")
    read = set(re.findall(r'"PERDURE_([A-Z_]*[A-Z])[="]', text))
    assert read <= {*map(str.upper, Settings.model_fields), *_BESIDE}


@pytest.mark.parametrize("mark", ["'", '"', "\\"])
def test_names_that_stand_in_queries_to_temporal_have_no_quotes(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, given in (
        ("TASK_QUEUE", f"o{mark}neil"),
        ("DEPLOYMENT", f"shop{mark}:1"),
        ("DEPLOYMENT", f"shop:1{mark}"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"PERDURE_{name}", given)
            with pytest.raises(InvalidSetting, match=r"without .*quotes and backslashes"):
                settings()
