"""PARKED: an effect is in doubt, and only a person can settle it. The finding names the question to clear up."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from perdure._reconcile.context import Context
from perdure._reconcile.row import Row
from perdure._store.finding_kinds import PARKED
from perdure.contracts.policies import AskFirst

_TIME = "%Y-%m-%d %H:%M:%S %Z"


async def parked(context: Context, row: Row) -> None:
    """Report each effect that waits for a person to resolve it."""
    if row.is_young(context):
        return
    for doubt in row.doubts:
        what = f"the outcome of {doubt['effect']} is unknown: " + ", ".join(_known(context, doubt))
        told = ("--by", "YOU", "--note", "WHY", "--as", "done", "--receipt", "FILE")
        resolve = row.command("resolve", "--effect", doubt["key"], *told)
        advice = (
            f"Look for {doubt['key']} at the other side, then settle it: {resolve}, "
            "or --as not_done (it is sent again), or --as abandoned"
        )
        await context.findings.report(PARKED, row.entity, what, advice, about=doubt["key"])


def _known(context: Context, doubt: dict[str, Any]) -> list[str]:
    """The facts that help a person."""
    first_at, deadline = (datetime.fromisoformat(doubt[name]) for name in ("first_at", "deadline"))
    known = [f"first attempt {first_at:{_TIME}}", f"the last of {doubt['attempts']} over by {deadline:{_TIME}}"]
    if doubt["lookup_hint"] is not None:
        known.append("it left a look-up hint (perdure show)")
    contract = context.app.contract(str(doubt["effect"]).partition("/")[0])
    policy = getattr(contract, "doubt", None)
    if isinstance(policy, AskFirst):
        known.append(f"the look-up {policy.lookup.name} gave no answer")
    if doubt["why"]:
        known.append(f"last answer: {doubt['why']}")
    return known
