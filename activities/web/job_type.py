"""A job type, as it stands in the table `web_job.type`; read anew for each call, so that a change counts at once."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Literal

import asyncpg
from pydantic import BaseModel, ConfigDict

from activities.contracts.web_job import Policy, Route, TypeName
from perdure.schema import Connection


class JobType(BaseModel):
    """A job type; see the table for what each field means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: TypeName
    url: str
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = {}
    timeout: timedelta = timedelta(seconds=30)
    within: timedelta = timedelta(days=1)
    doubt: Literal["dedupe", "lookup", "repeat", "escalate"] = "escalate"
    remembers: timedelta | None = None
    status_url: str | None = None
    settle: timedelta = timedelta(seconds=30)
    otherwise: Literal["escalate", "repeat"] = "escalate"
    not_done: tuple[int, ...] = ()
    tries: int | None = None
    at_once: int = 50
    signed_with: str | None = None
    callback: bool = False
    disabled: str | None = None
    changed_at: datetime | None = None

    @property
    def route(self) -> Route:
        """How a job of it is done."""
        return Route(
            held=self.disabled and f"the job type {self.name} is disabled: {self.disabled}",
            timeout=self.timeout,
            policy=Policy(kind=self.doubt, window=self.remembers, settle=self.settle, otherwise=self.otherwise),
            within=self.within,
            tries=self.tries,
            callback=self.callback,
        )


async def read_type(connection: Connection, name: str) -> JobType | None:
    """The job type of that name; None if there is none."""
    row = await connection.fetchrow("select * from web_job.type where name = $1", name)
    return None if row is None else of_row(row)


def of_row(row: asyncpg.Record) -> JobType:
    """The job type that a row of `web_job.type` holds."""
    return JobType.model_validate({**row, "headers": json.loads(row["headers"])})
