"""Entity: where it is and who has the next step, the way it took, everything that happened, and the acts. Payloads are
shown on request alone, and the request is on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from perdure._operations.entity import Record, link, read_record
from perdure._operations.selection import check_lifecycle
from perdure._operations.timeline import timeline, way
from perdure._services.credentials import profile
from perdure.console import offering
from perdure.console.figures import Node
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.contracts.keys import Entity
from perdure.errors import InvalidSetting, NoSuchEntity


async def show(view: View) -> Response:
    """The page, without payloads."""
    return await _page(view, view.query, payloads=False)


async def payloads(view: View) -> Response:
    """The page with payloads. That they were shown stands in the history of the entity before they are read."""
    lifecycle, entity_id = _named(view, view.form)
    async with view.reading() as connection:
        record = await read_record(connection, lifecycle, entity_id)
    view.see(lifecycle, entity_id, record.row["tenant"])
    view.require(Role.PAYLOADS, lifecycle, record.row["tenant"])
    session = await view.session(view.form.get("note", "")[:2000])
    acts = await session.acts(asks_temporal=False)
    await acts.note_look(Entity(lifecycle, entity_id))
    return await _page(view, view.form, payloads=True)


async def _page(view: View, fields: Mapping[str, str], *, payloads: bool) -> Response:
    lifecycle, entity_id = _named(view, fields)
    record = await _record(view, lifecycle, entity_id, payloads=payloads)
    seen = await offering.seen(view, record)
    row = record.row
    namespace = profile().get("namespace", "default")
    line = timeline(seen)
    may_act = view.person.may(Role.SETTLE, lifecycle, row["tenant"])
    return view.render(
        "entity.html",
        seen=seen,
        record=record,
        row=row,
        payloads=payloads,
        line=line,
        diagram=(_nodes(view, record), way(record.transitions), row["state"]),
        web=link(view.config.web_ui, namespace, seen.workflow_id),
        verbs=offering.reasons(view, seen) if may_act else {},
        may_see_payloads=view.person.may(Role.PAYLOADS, lifecycle, row["tenant"]),
    )


async def _record(view: View, lifecycle: str, entity_id: str, *, payloads: bool) -> Record:
    async with view.reading() as connection:
        try:
            record = await read_record(connection, lifecycle, entity_id, payloads=payloads)
        except NoSuchEntity:
            if view.person.may(Role.LOOK, lifecycle):
                await check_lifecycle(connection, lifecycle, view.app, view.reach())
            raise
    view.see(lifecycle, entity_id, record.row["tenant"])
    return record


def _nodes(view: View, record: Record) -> Sequence[Node]:
    """The states as they are declared, and those on record that no code declares any more."""
    app, lifecycle = view.app, record.row["lifecycle"]
    been = list(dict.fromkeys(way(record.transitions)))
    if app is None or lifecycle not in app.lifecycles:
        return [Node(name) for name in been]
    declared = app.lifecycles[lifecycle].declared
    nodes = [
        Node(
            str(each.name.value),
            [mark for mark, there in (("final", each.final), ("attention", each.attention)) if there],
            [str(follower.value) for follower in declared.followers(each.name.value)],
        )
        for each in declared
    ]
    names = {each.name for each in nodes}
    return [*(Node(name) for name in been if name not in names), *nodes]


def _named(view: View, fields: Mapping[str, str]) -> tuple[str, str]:
    entity_id = fields.get("id")
    if not entity_id:
        raise InvalidSetting("the id of the entity is missing: follow a link to it, or search for it")
    return str(view.request.path_params["lifecycle"]), entity_id


PAGES = [
    Page("entity", "/entity/{lifecycle}", show),
    Page("entity.payloads", "/entity/{lifecycle}/payloads", payloads, Role.PAYLOADS, method="POST"),
]
