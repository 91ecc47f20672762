"""Settings from the environment: `PERDURE_*` here, `TEMPORAL_*` and its profiles by `temporalio.envconfig`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, ValidationError, field_serializer, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from perdure.contracts.scopes import queue_of
from perdure.errors import InvalidSetting

Scope = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]


_PREFIX = "PERDURE_"
_BESIDE = (
    *("APP", "BY", "ADMIN_DATABASE_URL", "TEMPORAL_DATABASE_URL", "CONSOLE_OIDC_SECRET"),
    *("TEMPORAL_BIN", "TEMPORAL_CHECKSUM", "TEMPORAL_RELEASES", "TEST_POSTGRES_BIN", "TEST_TEMPORAL_ADDRESS"),
)
"""Variables that commands, servers and the pytest plugin read beside `Settings`."""
_ALIKE = 0.8
"""From this part of equal letters on, a name counts as another one misspelt."""
_DATABASE = "postgresql://USER@HOST:PORT/DATABASE"
_FORMS = {
    "PERDURE_SCOPE": "a small letter, then small letters, digits, _ and -, at most 63 characters",
    "PERDURE_DATABASE_URL": _DATABASE,
    "PERDURE_COLUMN_DATABASE_URL": _DATABASE,
    "PERDURE_ERASURE_DATABASE_URL": _DATABASE,
    "PERDURE_TASK_QUEUE": "a name without colons, spaces, quotes and backslashes",
    "PERDURE_DEPLOYMENT": "NAME:BUILD, or NAME:BUILD:auto, without spaces, quotes and backslashes",
    "PERDURE_METRICS": "otlp, or prometheus:HOST:PORT",
    "PERDURE_HEALTH": "HOST:PORT",
    "PERDURE_WEB_UI": "https://HOST",
    "PERDURE_KEY_SERVICE": "package.module:name",
}
"""The form of each setting whose field has a pattern, for a person."""


class Settings(BaseSettings):
    """The settings of a worker or client, from the environment.

    Attributes:
        database_url: the app's database, `postgresql://user:password@host:port/database`. `repr` and dumps show it
            without its passwords.
        column_database_url: the same database as the role that writes the columns which show states in the app's
            tables (`perdure grant ROLE --as column`); None = the role in `database_url`.
        erasure_database_url: the same database as the role that erases the rows of the app which a lifecycle declares
            (`Erasure`); None = the role in `database_url`.
        scope: names the app database where several share a Temporal namespace. It is part of the id of each workflow
            and of the name of each task queue.
        task_queue: name of the task queue that the worker polls, without the scope. If an effect or a look-up declares
            it, the worker performs these and runs no lifecycle.
        graceful_shutdown_timeout: seconds that calls under way have to end when a worker stops.
        connections: connections to PostgreSQL that one process may hold.
        max_cached_workflows: workflows that a worker keeps in memory. With 0, which is for tests, a query can make a
            run wait for ten seconds.
        workflow_sandbox: `sampled` = Temporal's sandbox watches the first ten runs of each lifecycle in each worker
            process, and one in a hundred of the others; `always` = every run; `never` = none.
        max_concurrent_effects: effects that a worker runs at the same time.
        search_attributes: those that each run has, where they are registered: `attention` = `PerdureAttention`, by
            which Temporal's lists find who needs a person; `state` = `PerdureState` too, which costs an event for each
            change of state; `none`. Workers register them.
        relay: whether the worker also delivers starts and messages.
        reconciliation: whether the worker also performs reconciliations.
        gauges: whether the worker, if it has metrics, also reads how everything stands from the database and from
            Temporal.
        relay_poll_interval: seconds between two polls of an empty outbox. Commits notify the relay in between. It polls
            eight times as often while they can't, as behind PgBouncer in transaction mode.
        deployment: `name:build` = this worker takes part in Temporal's worker versioning, and a run of a lifecycle ends
            on the build that it began with; with `name:build:auto` it continues on the current one. None = what
            Temporal's Worker Controller sets (TEMPORAL_DEPLOYMENT_NAME, TEMPORAL_WORKER_BUILD_ID), else unversioned.
        log: form of the log on standard error, where `json` is one object a line.
        log_level: the least severe entries that are logged.
        traces: `otlp` = a worker process sends spans to the address in `OTEL_*`; None = it makes none.
        metrics: `prometheus:127.0.0.1:9464` = a worker process serves metrics at this address; `otlp` = it sends them
            to the address in `OTEL_*`; None = it has none.
        health: `127.0.0.1:9465` = a process that runs until it is stopped serves `/live` and `/ready` at this address;
            None = it does not.
        retention: whole months to keep finished entities in the database; None = for ever.
        archive_to: folder to which a month is exported before it is dropped; None = it is dropped without an export.
        reconciliation_every: hours between two reconciliations; 0 = only on request.
        reconciliation_grace: age in seconds below which a reconciliation leaves a row alone.
        web_ui: address of Temporal's Web UI, such as `http://localhost:8233`, for the links that `perdure show`
            prints; None = no links.
        console_folder: folder of the console's key, one-time tokens and sessions, which only its owner may use;
            processes that serve the same console share it. None = `$XDG_STATE_HOME/perdure/console`.
        keys: keys that encrypt what goes to Temporal, `id:base64` of 32 bytes, several by comma: the first one
            encrypts, all decrypt; None = no encryption.
        keys_file: a file with these keys instead, `id base64` a line, which only its owner may read and write.
        key_service: `package.module:name` of the object that unwraps those keys, see `perdure.encryption.KeyService`;
            None = they are not wrapped.
        encrypt: whether payloads to Temporal are encrypted; None = where there are keys. With keys, encrypted payloads
            are always read.
        seal: whether `Private` fields are sealed before they are written to the database.

    Example:
        >>> Settings(task_queue="orders", scope="shop").queue
        'orders:shop'
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True)

    database_url: str = Field(default="postgresql://localhost/postgres", pattern=r"^postgres(ql)?://")
    column_database_url: str | None = Field(default=None, pattern=r"^postgres(ql)?://")
    erasure_database_url: str | None = Field(default=None, pattern=r"^postgres(ql)?://")
    scope: Scope | None = None
    # Lists of workflows name the task queue and the build, and Temporal finds none with a double quote or a backslash.
    task_queue: str = Field(default="perdure", max_length=200, pattern=r"^[^:\s'\"\\]+$")
    graceful_shutdown_timeout: float = Field(default=10.0, ge=0, le=3600)
    connections: int = Field(default=5, ge=2, le=100)
    max_cached_workflows: int = Field(default=1000, ge=0)
    workflow_sandbox: Literal["sampled", "always", "never"] = "sampled"
    max_concurrent_effects: int = Field(default=100, ge=1)
    search_attributes: Literal["none", "attention", "state"] = "attention"
    relay: bool = True
    reconciliation: bool = True
    gauges: bool = True
    relay_poll_interval: float = Field(default=0.2, gt=0, le=60)
    deployment: str | None = Field(default=None, pattern=r"^[^:.\s'\"\\]+:[^:\s'\"\\]+(:auto)?$", validate_default=True)
    log: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    traces: Literal["otlp"] | None = None
    metrics: str | None = Field(default=None, pattern=r"^(otlp|prometheus:\S+:\d+)$")
    health: str | None = Field(default=None, pattern=r"^\S+:\d+$")
    retention: int | None = Field(default=None, ge=1, le=1200)
    archive_to: str | None = Field(default=None, min_length=1)
    reconciliation_every: float = Field(default=24.0, ge=0, le=24 * 31)
    reconciliation_grace: float = Field(default=600.0, ge=0, le=86400)
    web_ui: str | None = Field(default=None, pattern=r"^https?://\S+$")
    console_folder: str | None = Field(default=None, min_length=1)
    keys: SecretStr | None = None
    keys_file: str | None = Field(default=None, min_length=1)
    key_service: str | None = Field(default=None, pattern=r"^[^:\s]+:[^:\s]+$")
    encrypt: bool | None = None
    seal: bool = False

    @field_validator("deployment", mode="before")
    @classmethod
    def _of_controller(cls, given: str | None) -> str | None:
        """The version that Temporal's Worker Controller sets, if `PERDURE_DEPLOYMENT` is not set."""
        name, build = os.environ.get("TEMPORAL_DEPLOYMENT_NAME"), os.environ.get("TEMPORAL_WORKER_BUILD_ID")
        return f"{name}:{build}" if given is None and name and build else given

    @property
    def queue(self) -> str:
        """The name of the task queue in Temporal. No other scope has a queue of this name."""
        return queue_of(self.task_queue, self.scope)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """See Pydantic. Passwords are left out, because tracebacks and logs may show the settings."""
        for name, value in super().__repr_args__():
            yield name, without_passwords(value) if value and (name or "").endswith("database_url") else value

    @field_serializer("database_url", "column_database_url", "erasure_database_url")
    def _dumped(self, url: str | None) -> str | None:
        return url and without_passwords(url)


def without_passwords(url: str) -> str:
    """The URL of a database for messages: user, hosts, ports and database. Only the scheme is shown if the URL cannot
    be read, or if its password may contain an unescaped `@`, `/`, `?` or `#`.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition(':')[0]}://***"
    user, at, hosts = parts.netloc.rpartition("@")
    ports = [each.rpartition("]")[2].partition(":")[2] for each in hosts.split(",")]
    if "@" in f"{user}{parts.path}{parts.query}{parts.fragment}" or not all(map(_is_port, ports)):
        return f"{parts.scheme}://***"
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}"


def _is_port(text: str) -> bool:
    return not text or text.isdecimal()


def settings() -> Settings:
    """Read the settings.

    Raises:
        InvalidSetting: a setting cannot be used. The message names the setting, its value and the allowed values.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = _PREFIX + "_".join(str(part) for part in first["loc"]).upper()
        given = "***" if name == "PERDURE_KEYS" or name.endswith("DATABASE_URL") else repr(first["input"])
        why = f"write {_FORMS[name]}" if first["type"] == "string_pattern_mismatch" else first["msg"]
        raise InvalidSetting(f"{name}={given}: {why}") from None


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that Perdure does not read although their name is nearly that of one which it reads, each with that
    name. A name with further words is another program's: Kubernetes sets `PERDURE_RELAY_PORT` for a service.

    Example:
        >>> misspelt({"PERDURE_CONECTIONS": "9", "PERDURE_SHOP_DATABASE_URL": "", "PERDURE_RELAY_PORT": ""})
        {'PERDURE_CONECTIONS': 'PERDURE_CONNECTIONS'}
    """
    known = [*map(str.upper, Settings.model_fields), *_BESIDE]
    found = {}
    for name in sorted(environment):
        word = name.removeprefix(_PREFIX)
        if not name.startswith(_PREFIX) or word in known:
            continue
        for near in difflib.get_close_matches(word, known, n=1, cutoff=_ALIKE):
            if f"_{near}_" not in f"_{word}_" and _PREFIX + near not in environment:
                found[name] = _PREFIX + near
    return found
