"""`perdure show`: everything about one entity."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from perdure._operations.connecting import temporal_client
from perdure._operations.durations import shown
from perdure._operations.entity import Seen, as_json, link, read_record, see
from perdure._operations.selection import check_lifecycle
from perdure._services.credentials import profile
from perdure._text.shown import one_line
from perdure._wire.orders import CallResult
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import LOOK, cli
from perdure.cli.database import reading
from perdure.cli.printing import moment, print_json, print_line, print_table, refuse, refuse_error
from perdure.errors import InvalidSetting, NoSuchEntity
from perdure.settings import settings

_OUTCOMES = {
    CallResult.STANDING.value: "no call: the record stands",
    CallResult.DIFFERENT.value: "no call: another input",
    CallResult.OVER.value: "no call: it is over",
    CallResult.UNANSWERED.value: "can't answer",
    CallResult.UNREAD.value: "not asked",
}


@cli.command(epilog="Example: perdure show order 42 --app shop.app:app", rich_help_panel=LOOK)
def show(
    lifecycle: Annotated[str, typer.Argument(help="its lifecycle")],
    entity_id: Annotated[str, typer.Argument(metavar="ID", help="its id")],
    payloads: Annotated[
        bool, typer.Option("--payloads", help="also inputs, snapshots, messages and receipts: they may be personal")
    ] = False,
    as_object: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
    app: AppOption = None,
) -> None:
    """Show where an entity is, how it came there, every attempt and look-up, and who has the next step.

    Exit status 1 if there is no such entity, or Temporal did not answer: what the database has is shown then.
    With --app also what follows where a worker was lost.
    """
    try:
        seen, where = asyncio.run(_read(lifecycle, entity_id, payloads, loaded(app)))
    except (InvalidSetting, NoSuchEntity) as error:
        refuse_error(error)
    if as_object:
        print_json({**_without_receipts(as_json(seen), payloads), "link": where})
    else:
        _print(seen, where, payloads)
    if seen.problem is not None:
        refuse(seen.problem, 1)


async def _read(lifecycle: str, entity_id: str, payloads: bool, app: App | None) -> tuple[Seen, str]:
    config = settings()
    asking = asyncio.create_task(temporal_client(config, app))
    try:
        async with reading() as connection:
            try:
                record = await read_record(connection, lifecycle, entity_id, payloads=payloads)
            except NoSuchEntity:
                await check_lifecycle(connection, lifecycle, app)
                raise
        client = await asking
        seen = await see(record, client, config.scope, app)
        namespace = profile().get("namespace", "default")
        return seen, link(config.web_ui, namespace, seen.workflow_id)
    finally:
        asking.cancel()


def _without_receipts(data: dict[str, Any], payloads: bool) -> dict[str, Any]:
    if payloads:
        return data
    hidden = ("receipt", "payload")
    for name in ("effects", "messages", "tries"):
        data[name] = [{key: value for key, value in each.items() if key not in hidden} for each in data[name]]
    return {name: value for name, value in data.items() if name not in ("input", "snapshot")}


def _print(seen: Seen, where: str, payloads: bool) -> None:
    for line in _head(seen, where, payloads):
        print_line(one_line(line))
    _print_transitions(seen)
    _print_effects(seen, payloads)
    _print_tries(seen)
    _print_messages(seen, payloads)
    _print_rest(seen)


def _head(seen: Seen, where: str, payloads: bool) -> Iterator[str]:
    row = seen.record.row
    since = f" since {moment(row['since'])}" if row["since"] else ", since when is no longer on record"
    yield f"{seen.record.entity}: {row['state']}{since}"
    if row["stuck_at"]:
        left = (row["stuck_at"] - row["now"]).total_seconds()
        yield f"stuck for {shown(-left)}" if left < 0 else f"should leave it within {shown(left)}"
    if row["attention"] and row["attention"] not in seen.standing.sentence:
        yield f"needs a person: {row['attention']}"
    yield f"{seen.standing.condition.words}: {seen.standing.sentence}"
    size = "no longer on record" if row["input_bytes"] is None else f"{row['input_bytes']} bytes"
    tenant = f", tenant {row['tenant']}" if row["tenant"] else ""
    yield f"generation {row['generation']}, started {moment(row['created_at']) or 'before'}{tenant}, input {size}"
    if payloads:
        yield f"input: {row['input']}"
        yield f"snapshot: {row['snapshot']}"
    yield where


def _print_transitions(seen: Seen) -> None:
    title = "\nwhat happened" + (" (the newest entries only)" if seen.record.cut else "")
    rows = [
        (
            moment(row["at"]),
            row["generation"],
            row["state"],
            row["made_by"],
            row["session_role"],
            row["why"] or row["attention"],
        )
        for row in seen.record.transitions
    ]
    print_table(("at", "generation", "state", "by", "role", "why"), rows, title=title, cut=("why",))


def _print_effects(seen: Seen, payloads: bool) -> None:
    columns = ["key", "token", "status", "attempts", "first", "ends by", "settled by", "receipt", "why"]
    rows = [
        (
            *(row["key"], row["token"], row["status"], row["attempts"]),
            *(moment(row["first_at"]), moment(row["deadline"])),
            *(row["settled_by"], row["receipt"] if payloads else _size(row["receipt_bytes"]), row["why"]),
        )
        for row in seen.record.effects
    ]
    if rows:
        print_table(columns, rows, title="\neffects on record", cut=("why",))


def _print_tries(seen: Seen) -> None:
    if not seen.history.tries:
        return
    title = "\nattempts and look-ups, from Temporal's history" + (" (not all of it)" if seen.history.cut else "")
    restarted = seen.record.row["generation"] > 0
    rows = [
        (
            *(each.effect, *([each.generation] if restarted else [])),
            *(f"{each.kind} {each.number}", moment(each.began or each.ordered)),
            "" if each.took is None else shown(each.took),
            *(
                _OUTCOMES.get(each.outcome, each.outcome.replace("_", " ")),
                each.worker or ("inline" if each.inline else ""),
                each.why,
            ),
        )
        for each in seen.history.tries
    ]
    columns = ["effect", *(["generation"] if restarted else []), "what", "began", "took", "outcome", "worker", "why"]
    print_table(columns, rows, title=title, cut=("why",))


def _print_messages(seen: Seen, payloads: bool) -> None:
    rows = []
    for row in seen.record.messages:
        how = f"delivered {moment(row['delivered_at'])}" if row["delivered_at"] else row["error"] or "waits"
        if row["due_at"] and not row["delivered_at"]:
            how = f"due at {moment(row['due_at'])}"
        given = (row["payload"],) if payloads else ()
        rows.append(
            (row["message_id"], row["kind"], row["name"], moment(row["created_at"]), row["ordinal"], how, *given)
        )
    if rows:
        columns = ["message", "kind", "name", "given", "place", "delivery", *(["payload"] if payloads else [])]
        print_table(columns, rows, title="\nmessages")


def _print_rest(seen: Seen) -> None:
    record = seen.record
    for row in record.behind:
        why = row["error"] or "the app holds it"
        tries = f"tries: {row['tries']}, the next at {moment(row['next_try'])}"
        print_line("\n" + one_line(f"the row of {row['app_table']} does not show this state: {why} ({tries})"))
    if record.rejected:
        rows = [(row["seq"], row["kind"], moment(row["rejected_at"]), row["reason"]) for row in record.rejected]
        print_table(("seq", "kind", "at", "reason"), rows, title="\nrejected (see `perdure rejected`)")
    if record.findings:
        found = [
            (row["kind"], moment(row["first_seen"]), "mended" if row["mended"] else "left", row["what"], row["advice"])
            for row in record.findings
        ]
        print_table(("kind", "since", "", "what", "advice"), found, title="\nfindings")


def _size(count: int | None) -> str:
    return "" if count is None else f"{count} bytes"
