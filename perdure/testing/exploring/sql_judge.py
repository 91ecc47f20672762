"""Judges what effects do not show: committed rows are delivered, the record agrees with itself, and nothing waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure._worker.record import check_record
from perdure.errors import DeclarationError
from perdure.testing.exploring.gathering import evidence_of
from perdure.testing.exploring.judge import judge
from perdure.testing.exploring.scenario import Finding
from perdure.testing.exploring.sql_acts import NOWHERE

if TYPE_CHECKING:
    from perdure.testing.exploring.sql_world import SqlWorld

_DUE = (
    "select lifecycle, id, kind, tries, error from perdure.outbox "
    "where not_before <= sim.clock() and coalesce(due_at, not_before) <= sim.clock() and lifecycle <> $1"
)
_REJECTED = "select lifecycle, id, kind, message_id, reason from perdure.rejected"
_MIRROR = """
    select i.lifecycle, i.id, i.final, e.state, f.state as finished, t.state as last, t.version as shown, i.version,
        coalesce(i.noted, i.version) as newest
    from perdure.ident i
    left join perdure.entity e using (lifecycle, id)
    left join perdure.finished f on f.lifecycle = i.lifecycle and f.id = i.id and f.generation = i.generation
    left join lateral (
        select x.state, x.version from perdure.transition x
        where x.lifecycle = i.lifecycle and x.id = i.id
            and x.effect is null -- what becomes known after the end is no state
        order by x.generation desc, x.version desc limit 1) t on true
    where i.lifecycle <> $1
"""


async def judge_all(world: SqlWorld) -> list[Finding]:
    """The errors once all entities have ended."""
    sessions = world.database.sessions
    found: list[Finding] = []
    for row in world.database.rows.values():
        found += judge(evidence_of(world, row.entity))
    found += [Finding("a row that is due stays", str(dict(row))) for row in await sessions.fetch(_DUE, NOWHERE)]
    for row in await sessions.fetch(_REJECTED):
        unfit = row["message_id"] in world.unfit or (row["kind"] == "start" and row["id"] in world.applications.unfit)
        if row["lifecycle"] != NOWHERE and not unfit:
            found.append(Finding("rejected, and a running build can take it", str(dict(row))))
    for row in await sessions.fetch(_MIRROR, NOWHERE):
        one = row["final"] == row["finished"] == row["last"] and row["state"] is None
        if not one or not row["version"] <= row["shown"] <= row["newest"]:
            found.append(Finding("the mirror contradicts itself", str(dict(row))))
    async with sessions.lent() as session:
        for build, app in sorted(world.subject.builds.items()):
            for name, lifecycle in app.lifecycles.items():
                try:
                    await check_record(session, name, lifecycle)
                except DeclarationError as error:
                    found.append(Finding("a worker can't start", f"build {build}: {error}"))
    return found
