"""Limits and tenants: the rates that effects keep to, which one is in force, who set it, and how to change one for the
whole fleet; and what each tenant has open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from temporalio.client import Client

from perdure._operations.connecting import why_not_compared
from perdure._operations.fleet import read_tenants
from perdure._operations.limits import check_rate, read_limit, set_limit
from perdure._wire.requests import OperatorRequest
from perdure.console.guarding import log
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.contracts.limits import RateLimit
from perdure.errors import InvalidSetting, NotNow, PerdureError, TemporalUnavailable
from perdure.logs import log_event

LONGEST_NOTE = 1000
"""Characters of a reason, which Temporal keeps."""


async def show(view: View) -> Response:
    """The page: limits are read from Temporal, and the page has a note if it does not answer."""
    reach, sources = view.reach(), view.sources

    async def tenants() -> list[dict[str, Any]]:
        async with sources.reading() as connection:
            return await read_tenants(connection, reach)

    async def limits() -> tuple[list[dict[str, Any]], str | None]:
        client = await sources.temporal()
        return await _limits(view, client)

    seen = await sources.kept(("tenants", reach), tenants, fresh=10, stale=60)
    rows, problem = (await sources.kept("limits", limits, fresh=1)).value
    return view.render(
        "limits.html",
        seen=seen,
        declared=[] if view.app is None else sorted(view.app.limits),
        limits=rows,
        problem=problem,
        may=view.person.may_everywhere(Role.ADMINISTER),
    )


async def ask(view: View) -> Response:
    """What a change would do: nothing is changed."""
    limit, client = _limit(view), await view.sources.temporal()
    rows, problem = await _limits(view, client, limit)
    may = view.person.may_everywhere(Role.ADMINISTER)
    row, was = rows[0] if rows else None, view.query.get("was", "")
    return view.render("limit.html", limit=limit, row=row, problem=problem, may=may, was=was, seen=_seen(row))


async def change(view: View) -> Response:
    """Change it for all workers, until it is changed again. Temporal keeps the number, who set it and why."""
    view.require_everywhere(Role.ADMINISTER)
    limit, client = _limit(view), await view.sources.temporal()
    rate, note = _rate(view.form), view.form.get("note", "").strip()
    if not note:
        raise InvalidSetting("the note is missing: say why, for the record")
    if len(note) > LONGEST_NOTE:
        raise InvalidSetting(f"the note has more than {LONGEST_NOTE:,} characters")
    if isinstance(client, PerdureError):
        raise client
    if why := await why_not_compared(view.sources.reading(), client, view.config):
        log_event(log, "whether this scope is the database's own is not known", limit=limit.name, error=why)
    before = await read_limit(client, limit, view.config.queue)
    if any(view.form.get(name, value) != value for name, value in _seen(before).items()):
        raise NotNow(_changed(before))
    row = await set_limit(client, limit, view.config.queue, rate, OperatorRequest(by=view.person.name, note=note))
    view.sources.outdate()
    log_event(log, "changed a limit", limit=limit.name, per_second=rate, by=view.person.name)
    words = "as declared" if rate is None else f"{row['per_second']:.7g} a second"
    if row["set_to"] not in (None, row["per_second"]):
        words += f" (Temporal allows no more, and not {row['set_to']:.7g})"
    polled = "" if row["pollers"] else f"; none has polled {row['task_queue']} in the last five minutes"
    notice = view.signed_notice(f"{limit.name}: {words}, for all workers{polled}")
    return view.redirect("/limits", notice=notice, changed=limit.name, was=_was(before))


async def _limits(
    view: View, client: Client | PerdureError, only: RateLimit | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """What is in force, and why that is not known."""
    declared = [] if view.app is None else sorted(view.app.limits.values(), key=lambda each: each.name)
    if isinstance(client, PerdureError):
        return [], str(client)
    try:
        return [await read_limit(client, each, view.config.queue) for each in declared if only in (None, each)], None
    except TemporalUnavailable as error:
        return [], str(error)


def _seen(row: Mapping[str, Any] | None) -> dict[str, str]:
    """What a change must find as the form showed it, so that it ends no stop that its person has not seen."""
    if row is None or row["set_at"] is None:
        return {"set_to": "", "set_at": ""}
    return {"set_to": f"{row['set_to']:.7g}", "set_at": row["set_at"].isoformat()}


def _changed(row: Mapping[str, Any]) -> str:
    who, why = row["set_by"] or "somebody", f": {row['note']}" if row["note"] else ""
    rate = "back to the rate in the code" if row["set_to"] is None else f"to {row['set_to']:.7g} a second"
    return f"{row['limit']} was set {rate} by {who} since the form was loaded{why}. Load it again"


def _was(before: Mapping[str, Any]) -> str:
    """What was in force, as the form that undoes a change has it."""
    return "code" if before["set_by"] is None else f"{before['set_to']:.7g}"


def _limit(view: View) -> RateLimit:
    name = view.request.path_params["name"]
    limits = {} if view.app is None else view.app.limits
    if name not in limits:
        raise InvalidSetting(f"no limit is named {name!r}; there are: {', '.join(sorted(limits)) or 'none'}")
    return limits[name]


def _rate(form: Any) -> float | None:
    if form.get("rate_of") == "code":
        return None
    try:
        rate = float(form.get("per_second", ""))
    except ValueError:
        raise InvalidSetting(f"{form.get('per_second')!r} is no rate: write a number a second, zero or more") from None
    return check_rate(rate)


PAGES = [
    Page("limits", "/limits", show, menu="Limits", records="a limit"),
    Page("limits.ask", "/limits/{name}", ask),
    Page("limits.change", "/limits/{name}", change, Role.ADMINISTER, method="POST"),
]
