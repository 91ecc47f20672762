"""What `make demo-reminders` shows at its end: what was sent when, all that was not as with most, and the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from rich.console import Console
from rich.table import Table

from infra.demos.comments import console
from infra.demos.reminders_record import EFFECTS, Count, SeenDose


def show(count: Count, doses: Sequence[SeenDose]) -> None:
    """What was sent when, what was not as with most, and the counts."""
    wide = console if console.is_terminal else Console(width=140)
    for table in (_sent(doses), _remarkable(doses), _counts(count)):
        wide.print(table)


def _sent(doses: Sequence[SeenDose]) -> Table:
    table = _table("sent when they were due", "zone", "due there", "sent there", ">doses", ">by SMS", ">by call")
    groups: dict[tuple[str, datetime], list[SeenDose]] = {}
    for each in doses:
        if each.state == "sent" and not each.remark:
            groups.setdefault((str(each.due.tzinfo), each.due), []).append(each)
    for (zone, due), those in sorted(groups.items(), key=lambda each: each[0][1]):
        ended = [f"{each.ended:%H:%M:%S}" for each in those]
        by = Counter(each.by[0] for each in those if each.by)
        when = min(ended) if min(ended) == max(ended) else f"{min(ended)} - {max(ended)}"
        table.add_row(zone, f"{due:%d %b %H:%M}", when, str(len(those)), *(str(by[each] or "") for each in EFFECTS))
    return table


def _remarkable(doses: Sequence[SeenDose]) -> Table:
    table = _table("all others", "patient", "due there", "what became of it", "")
    for each in doses:
        if each.remark or each.state != "sent":
            by = f" by {each.by[0]}" if each.state == "sent" and each.by else ""
            due, ended = f"{each.due.tzinfo} {each.due:%H:%M}", f"{each.state} {each.ended:%H:%M:%S}{by}"
            table.add_row(each.id.partition("/")[0], due, ended, each.remark)
    return table


def _counts(count: Count) -> Table:
    table = _table("counted from the provider's log, against the doses on record", "what", ">count", "")
    rows = [
        ("doses", count.doses, f"of {count.patients} patients in {count.zones} zones, by the plans"),
        ("sent", count.sent, f"{count.by_sms} by SMS, {count.by_call} by call"),
        ("expired", count.expired, "of no use any more, or only in the quiet hours: the reason is on record"),
        ("refused", count.refused, "by both channels"),
        ("withdrawn", count.withdrawn, "their patient had signed off or paused"),
        ("answers lost", count.settled_by_callback + count.settled_by_look_up + count.in_doubt,
         f"{count.settled_by_callback} settled by a callback, {count.settled_by_look_up} by a look-up, "
         f"{count.in_doubt} expired in doubt"),
        ("unusable", count.unusable, "patients with a bad record, who harm nobody else"),
        ("lost", count.lost, "not on record, or on record as sent and unknown to the provider"),
        ("twice", count.twice, "accepted more than once"),
        ("unasked", count.unasked, "on record and due to nobody, or accepted and on record as not sent"),
    ]  # fmt: skip
    for what, number, note in rows:
        bad = number and what in ("lost", "twice", "unasked")
        table.add_row(what, f"[red]{number}[/red]" if bad else str(number), note)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for each in columns:
        justify: Literal["left", "right"] = "right" if each.startswith(">") else "left"
        table.add_column(each.removeprefix(">"), justify=justify, no_wrap=bool(each))
    return table
