"""`perdure reconcile`: what the last one left for a person; or make one now."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import typer
from temporalio.client import WorkflowFailureError

from perdure._operations.connecting import check_binding, check_primary, read_binding
from perdure._operations.durations import duration
from perdure._reconcile.asking import reconcile
from perdure._reconcile.reading import findings_left, last_reconciliation
from perdure._store.sql import shared
from perdure._text.shown import one_line
from perdure._wire.reconciliation import Named, ReconciliationRequest, Summary
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.cli.cli import MEND, cli
from perdure.cli.database import reading
from perdure.cli.printing import complain, moment, print_json, print_line, print_note, print_table, refuse, refuse_error
from perdure.cli.who import By, request
from perdure.errors import InvalidSetting, NoSuchEntity
from perdure.settings import settings

_MOST = 500
_NAMED = 5
"""Ids that are shown of findings that are alike."""

Finding: TypeAlias = "dict[str, Any]"


@cli.command("reconcile", epilog="Example: perdure reconcile --now", rich_help_panel=MEND)
def reconciliation_command(
    of: Annotated[
        str | None, typer.Argument(metavar="[LIFECYCLE", help="with ID: this entity alone", show_default=False)
    ] = None,
    entity_id: Annotated[str | None, typer.Argument(metavar="ID]", help="its id", show_default=False)] = None,
    now: Annotated[bool, typer.Option("--now", help="make one, or join the one that runs, and wait for it")] = False,
    by: By = "",
    everything: Annotated[
        bool, typer.Option("--all", help="query every open workflow for its state, not only those that wrote lately")
    ] = False,
    grace: Annotated[
        str | None,
        typer.Option(help="leave alone what was written since: 10m; as the workers' setting", show_default=False),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="each finding in lines of its own, not by kind")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Show what the last reconciliation found, mended, and left for a person; with --now make one.

    Exit status 0: nothing is left; 1: something is left for a person, or no worker answers; 2: wrong usage.
    """
    if (of is None) != (entity_id is None):
        refuse("give LIFECYCLE and ID, or neither", 2)
    if not now and (everything or grace is not None):
        refuse("--all and --grace go with --now", 2)
    only = None if of is None or entity_id is None else Named(lifecycle=of, id=entity_id)
    asked = None
    if now:
        asked = ReconciliationRequest(by=request(by).by, only=only, grace=_seconds(grace), everything=everything)
    asyncio.run(_known(only))
    made = None if asked is None else asyncio.run(_make(asked, quiet=as_json))
    left = asyncio.run(_show(only, each=each or only is not None, as_json=as_json))
    # Its own figures count as well: the URL may lead to several servers, one of which is behind.
    if left or (made is not None and (made.failed or made.left)):
        raise typer.Exit(1)


async def _make(asked: ReconciliationRequest, *, quiet: bool) -> Summary:
    config = settings()
    temporal_client = await connect(PerdurePlugin(App([], []), config))
    async with reading() as connection:
        await check_primary(connection)  # a standby shows the findings of before
        binding = await read_binding(connection)
    # Else the workers of another database would make it, of that one.
    await check_binding(temporal_client, config, binding)
    shown = ""

    def report(what: str) -> None:
        nonlocal shown
        if what != shown and not quiet:
            print_note(what)
        shown = what

    try:
        made = await reconcile(temporal_client, config.scope, asked, report)
    except WorkflowFailureError as error:
        refuse(f"the reconciliation could not be made: {error.cause}", 1)
    for part, why in made.failed.items():
        complain(f"the part {part} failed: {why}")
    if not quiet:
        print_line(f"{made.seen} open entities checked, {made.mended} mended, {made.left} left for a person")
    return made


async def _show(only: Named | None, *, each: bool, as_json: bool) -> int:
    """How many findings are left."""
    async with reading() as connection:
        last = await last_reconciliation(connection)
        left = await findings_left(connection, only, _MOST)
    if as_json:
        print_json({"reconciliation": last})
        for finding in left:
            print_json(finding)
        return len(left)
    if only is None:
        _show_last(last)
    for group in [[finding] for finding in left] if each else _alike(left):
        _print(group)
    if len(left) == _MOST:
        print_line(f"\nthe first {_MOST} are shown; all of them: select * from perdure.finding where not mended;")
    elif not left:
        print_line("nothing is left for a person")
    return len(left)


def _alike(left: Sequence[Finding]) -> list[list[Finding]]:
    """Those of one kind and lifecycle together, if they are about entities."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(left):
        groups.setdefault((finding["kind"], finding["lifecycle"]) if finding["id"] else number, []).append(finding)
    return list(groups.values())


def _print(group: Sequence[Finding]) -> None:
    """One finding in two lines, or many of one kind in three."""
    first = group[0]
    if len(group) == 1:
        who = f"{first['lifecycle']}/{first['id']}: " if first["id"] else ""
        print_line(f"\n{first['kind']}  {one_line(who + first['what'])}")
        print_line(f"    since {moment(first['first_seen'])}. {one_line(first['advice'])}")
        return
    some = ", ".join(one_line(finding["id"]) for finding in group[:_NAMED])
    more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
    reasons = Counter(one_line(finding["what"]) for finding in group).most_common()
    others = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
    since = min(finding["first_seen"] for finding in group)
    print_line(
        f"\n{first['kind']}  {len(group)} of {one_line(first['lifecycle'])}, since {moment(since)}: {some}{more}"
    )
    print_line(f"    {reasons[0][0]}{others}")
    listed = shlex.join(["perdure", "list", "--lifecycle", first["lifecycle"], "--finding", first["kind"]])
    print_line(f"    {listed}; what to do about each: perdure reconcile --each")


def _show_last(last: dict[str, Any] | None) -> None:
    if last is None:
        print_line("no reconciliation has run yet: perdure reconcile --now")
        return
    ended = moment(last["ended_at"]) or "runs"
    figures = (last["run"], last["asked_by"], moment(last["began_at"]), ended, last["seen"], last["mended"])
    print_table(("reconciliation", "requested by", "began", "ended", "checked", "mended"), [figures])
    kinds = last["summary"].get("kinds") or {}
    if kinds:
        rows = [(kind, each["mended"], each["left"]) for kind, each in sorted(kinds.items())]
        print_table(("kind", "mended", "left"), rows)


async def _known(only: Named | None) -> None:
    if only is None:
        return
    try:
        async with reading() as connection:
            if await connection.fetchrow(shared("identity"), only.lifecycle, only.id) is None:
                raise NoSuchEntity(f"{only.lifecycle}/{only.id}: the database has no such entity")
    except NoSuchEntity as error:
        refuse_error(error)


def _seconds(grace: str | None) -> float | None:
    try:
        return None if grace is None else duration(grace).total_seconds()
    except InvalidSetting as error:
        refuse(f"--grace: {error}", 2)
