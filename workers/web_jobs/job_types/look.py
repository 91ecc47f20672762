"""`perdure job-type list | show`: the job types, and the numbers of their jobs by state."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from activities.web_jobs import catalogue, urls
from activities.web_jobs.catalogue import FIELDS, Found
from activities.web_jobs.durations import written
from activities.web_jobs.job_type import JobType, Unusable, shown_headers
from perdure.cli.printing import moment, one_line, print_json, print_line, print_table, refuse
from workers.web_jobs.job_types.advice import HEADER_FIELDS, advise
from workers.web_jobs.job_types.database import types
from workers.web_jobs.job_types.group import commands

_OPEN = ("scheduled", "held", "processing")


@commands.command("list", epilog="Example: perdure job-type list")
def list_types(as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False) -> None:
    """List job types, with the numbers of their open, held (also open) and failed jobs.

    Exit status 1 if there is none.
    """
    found, standing = asyncio.run(_read())
    if as_json:
        for each in found:
            print_json(_data(each) | _counts(standing.get(each.name, {})))
    if not found:
        refuse("there is no job type: perdure job-type add", 1)
    if as_json:
        return
    rows = []
    for each in found:
        counts = _counts(standing.get(each.name, {}))
        what = (f"{each.method} {each.url}", _doubt(each)) if isinstance(each, JobType) else ("", "")
        why = each.why if isinstance(each, Unusable) else each.disabled and f"disabled: {each.disabled}"
        rows.append((each.name, *what, counts["open"], counts["held"], counts["failed"], why))
    print_table(("job type", "page", "in doubt", "open", "held", "failed", ""), rows, cut=("page",))


@commands.command(epilog="Example: perdure job-type show send-invoice")
def show(
    name: Annotated[str, typer.Argument(help="the job type", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
) -> None:
    """Show the fields of a job type, the numbers of its jobs by state, and an example of the URL.

    Values of headers that may be secret are not shown. Exit status 1 if there is no such type, or it can't be used.
    """
    found, standing = asyncio.run(_read(name))
    if not found:
        refuse(f"there is no job type {name!r}", 1)
    [one] = found
    counts = standing.get(name, {})
    if as_json:
        print_json(_data(one) | _counts(counts))
    if isinstance(one, Unusable):
        refuse(one, 1)
    if as_json:
        return
    print_table(("field", "value"), [(field, _value(field, getattr(one, field))) for field in FIELDS])
    print_table(("its jobs", ""), [(state, counts.get(state, 0)) for state in (*_OPEN, "failed")])
    params = urls.names(one.url)
    if params:
        print_line(f"for example: {urls.expanded(one.url, dict.fromkeys(params, 'x'))}")
    print_line(f"changed {moment(one.changed_at)}")
    advise(one)


async def _read(name: str | None = None) -> tuple[list[Found], dict[str, dict[str, int]]]:
    async with types(reads=True) as connection:
        if name is None:
            return await catalogue.every_type(connection), await catalogue.standing(connection)
        found = await catalogue.find(connection, name)
        return [] if found is None else [found], await catalogue.standing(connection, name)


def _counts(states: dict[str, int]) -> dict[str, int]:
    return {
        "open": sum(states.get(each, 0) for each in _OPEN),
        "held": states.get("held", 0),
        "failed": states.get("failed", 0),
    }


def _data(found: Found) -> dict[str, Any]:
    if isinstance(found, Unusable):
        return {"name": found.name, "unusable": found.why}
    data = found.model_dump()
    spans = {field: written(getattr(found, field)) for field in ("timeout", "within", "visibility_delay")}
    remembers = None if found.remembers is None else written(found.remembers)
    headers = {name: shown_headers(getattr(found, name)) for name in HEADER_FIELDS}
    return data | spans | {"remembers": remembers, **headers}


def _doubt(type_: JobType) -> str:
    of_it = {"dedupe": type_.remembers and written(type_.remembers), "lookup": "ask"}.get(type_.doubt)
    return f"{type_.doubt}:{of_it}" if type_.doubt == "dedupe" else type_.doubt


def _value(field: str, value: Any) -> str:
    if field in ("timeout", "within", "visibility_delay", "remembers"):
        return "" if value is None else written(value)
    if field in HEADER_FIELDS:
        return "; ".join(f"{name}: {each}" for name, each in shown_headers(value).items())
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value)
    return one_line(
        {True: "yes", False: "no", None: ""}.get(value, value) if value is None or isinstance(value, bool) else value
    )
