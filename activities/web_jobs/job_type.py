"""A job type, a row of the table `web_job.type`. It is read for each call, so a change applies at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import asyncpg
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from activities.web_jobs import urls
from activities.web_jobs.contracts import Policy, Route, TypeName
from activities.web_jobs.durations import duration, written
from activities.web_jobs.origins import same_origin
from perdure import NotDone
from perdure.database import Connection

OURS = (
    *("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"),
    *("accept-encoding", "idempotency-key", "traceparent", "content-digest", "signature", "signature-input"),
)
"""Headers that a type cannot set, because the client or each call sets them; also those that begin as below."""
_OUR_PREFIXES = ("perdure-", "proxy-")
_SECRET_HEADER = re.compile(r"auth|cookie|key|password|secret|session|signature|token", re.IGNORECASE)
_SECRET = r"(?:env:[A-Za-z_][A-Za-z0-9_]*|file:/\S+)"
_TEN_YEARS = timedelta(days=3650)


class Unusable(NotDone):
    """A row of `web_job.type` that SQL has written, and that can't be used: its jobs are held until it can be.

    Attributes:
        name: of the type.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the job type {name} can't be used: {why}")
        self.name = name


def _duration(given: Any) -> Any:
    if isinstance(given, timedelta):
        return given
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is no duration: write 90s, 10m, 2h or 3d")
    return duration(given)


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class JobType(BaseModel):
    """A job type, from its row, from the command line or from a file: each is checked here.

    Attributes:
        name: the name that jobs use.
        url: where its page is; a template of RFC 6570, expanded with the job's params, `id` and `type`.
        method: of the request; POST, PUT and PATCH have a body.
        headers: sent along to the origin of `url`, and to no other; no secrets, for they stand here in plain.
        timeout: the longest that one call may take.
        within: the longest total time, once the page has reported that it is at work.
        doubt: the doubt policy, for calls whose outcome is unknown; `dedupe:24h` and `lookup:URL` also set one of the
            next two as well.
        remembers: for how long the page drops repeats of a key; for `dedupe`.
        status_url: where to ask whether it was done, a template with `key` and `token` as well; for `lookup`.
        status_headers, status_signed_with: as `headers` and `signed_with`, for a status URL of another origin, which
            gets none of those.
        visibility_delay: how long after a call's deadline the page may still be at work; for `lookup`.
        otherwise: the policy after that time, or if the look-up gives no answer.
        not_done: statuses from 500 on that mean that the page did nothing.
        tries: how many calls may end without the page having done anything; None = no limit.
        at_once: how many calls one worker makes at a time.
        signed_with: where the secrets of the signature are, `env:NAME` or `file:/path`, several while they change.
        callback: whether the page may answer 202 and call back.
        children: the types whose jobs its page may list as children.
        max_depth: how many levels of jobs may stand below the job that an app inserts, where its page lists children.
        disabled: why its jobs are held; None = they are not.
        changed_at: when it was last changed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: TypeName
    url: str
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = {}
    timeout: Duration = timedelta(seconds=30)
    within: Duration = timedelta(days=1)
    doubt: Literal["dedupe", "lookup", "repeat", "escalate"] = "escalate"
    remembers: Duration | None = None
    status_url: str | None = None
    status_headers: dict[str, str] = {}
    status_signed_with: str | None = None
    visibility_delay: Duration = timedelta(seconds=30)
    otherwise: Literal["escalate", "repeat"] = "escalate"
    not_done: tuple[Annotated[int, Field(ge=500, le=599)], ...] = ()
    tries: Annotated[int, Field(gt=0, le=2**31 - 1)] | None = None
    at_once: Annotated[int, Field(gt=0, le=2**31 - 1)] = 50
    signed_with: str | None = None
    callback: bool = False
    children: tuple[TypeName, ...] = ()
    max_depth: Annotated[int, Field(ge=1, le=100)] = 3
    disabled: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    changed_at: datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_doubt(cls, given: Any) -> Any:
        """Split `dedupe:24h` and `lookup:URL` into two fields."""
        doubt = given.get("doubt") if isinstance(given, Mapping) else None
        if not isinstance(doubt, str) or ":" not in doubt:
            return given
        kind, _, of_it = doubt.partition(":")
        field = {"dedupe": "remembers", "lookup": "status_url"}.get(kind)
        if field is None:
            raise ValueError(f"doubt: {doubt!r} is none of dedupe:24h, lookup:URL, repeat, escalate")
        if given.get(field) is not None:
            raise ValueError(f"doubt: {doubt!r} contains {field}, which is given as well")
        return {**given, "doubt": kind, field: of_it}

    @field_validator("url", "status_url")
    @classmethod
    def _called(cls, url: str | None) -> str | None:
        return None if url is None else urls.checked(url)

    @field_validator("headers", "status_headers")
    @classmethod
    def _sendable(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise ValueError(f"{name!r} can't be the name of a header")
            if name.lower() in OURS or name.lower().startswith(_OUR_PREFIXES):
                raise ValueError(f"{name} is set by perdure, or by the client, for each call")
            if not re.fullmatch(r"[\t -~]*", value):
                raise ValueError(f"the value of {name} has characters that a header can't have")
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("one header is given twice: names differ in more than their case")
        return headers

    @field_validator("signed_with", "status_signed_with")
    @classmethod
    def _reference(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(rf"{_SECRET}(?: {_SECRET})*", given):
            # It may be the secret itself: it is not quoted.
            raise ValueError(
                "give the place of the secret, never its value: env:NAME or file:/path, blanks between several"
            )
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> JobType:
        _between("timeout", self.timeout, timedelta(milliseconds=100), timedelta(hours=1))
        _between("within", self.within, timedelta(seconds=1), _TEN_YEARS)
        _between("visibility_delay", self.visibility_delay, timedelta(), timedelta(days=1))
        if self.remembers is not None:
            _between("remembers", self.remembers, timedelta(), _TEN_YEARS)
            if self.remembers <= self.timeout + timedelta(minutes=1):
                raise ValueError(
                    f"remembers: {written(self.remembers)} leaves no time for a second call: "
                    f"more than timeout, {written(self.timeout)}, and a minute"
                )
        if self.doubt == "dedupe" and self.remembers is None:
            raise ValueError("doubt: say for how long the page remembers a key: dedupe:24h")
        if self.doubt == "lookup" and self.status_url is None:
            raise ValueError("doubt: say where the page can be asked: lookup:https://host/status?key={key}")
        for name in ("status_headers", "status_signed_with"):
            if getattr(self, name) and (self.status_url is None or same_origin(self.status_url, self.url)):
                raise ValueError(f"{name}: they are for a status URL of another origin than the page's")
        return self

    def credentials(self, url: str) -> tuple[dict[str, str], str | None]:
        """The headers, and the places of the secrets, for a request to `url`: those declared for its origin."""
        if same_origin(url, self.url):
            return self.headers, self.signed_with
        if self.status_url is not None and same_origin(url, self.status_url):
            return self.status_headers, self.status_signed_with
        return {}, None

    @property
    def route(self) -> Route:
        """How a job of it is done."""
        return Route(
            held=self.disabled and f"the job type {self.name} is disabled: {self.disabled}",
            timeout=self.timeout,
            policy=Policy(
                kind=self.doubt, window=self.remembers, visibility_delay=self.visibility_delay, otherwise=self.otherwise
            ),
            within=self.within,
            tries=self.tries,
            callback=self.callback,
        )


def seems_secret(header: str) -> bool:
    """Whether the value of a header may be a secret, by its name.

    >>> seems_secret("Authorization"), seems_secret("x-api-key"), seems_secret("Accept-Language")
    (True, True, False)
    """
    return _SECRET_HEADER.search(header) is not None


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as everybody may see them."""
    return {name: "***" if seems_secret(name) else value for name, value in headers.items()}


async def read_type(connection: Connection, name: str) -> JobType | None:
    """The job type of that name; None if it does not exist.

    Raises:
        Unusable: SQL has written what can't be used.
    """
    row = await connection.fetchrow("select * from web_job.type where name = $1", name)
    return None if row is None else of_row(row)


def of_row(row: asyncpg.Record) -> JobType:
    """The job type that a row of `web_job.type` holds.

    Raises:
        Unusable: it can't be used.
    """
    try:
        objects = {name: json.loads(row[name]) for name in ("headers", "status_headers")}
        return JobType.model_validate({**row, **objects})
    except ValidationError as error:
        raise Unusable(row["name"], problems(error)[0]) from None


def problems(error: ValidationError) -> list[str]:
    """The problems of a job type: one line each, which begins with the field's name and quotes no secret."""
    lines = []
    for each in error.errors(include_input=False, include_url=False, include_context=False):
        where = ".".join(str(part) for part in each["loc"])
        what = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            what = "there is no such field"
        elif where == "name":
            what = "1 to 63 of a-z 0-9 . _ -, of which the first is a letter or digit"
        lines.append(f"{where}: {what}" if where else what)
    return lines


def _between(name: str, given: timedelta, least: timedelta, most: timedelta) -> None:
    if not least <= given <= most:
        raise ValueError(f"{name}: {written(given)} is not between {written(least)} and {written(most)}")
