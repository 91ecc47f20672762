"""The judge of families: rows, counts, ends and what the pages did must be one story.

It counts in Python, from rows and from the pages' own books, and shares no code with what counts them in SQL.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from perdure.testing.exploring.scenario import Finding

if TYPE_CHECKING:
    from tests.applications.web_jobs.families.world import FamilyWorld

_ENDS = {"complete": "done", "failed": "failed", "cancelled": "cancelled", "listed": "waiting"}
_COUNTS = ("waiting", "open", "done", "failed", "cancelled")
_DUE = "select lifecycle, id, kind, tries, error from perdure.outbox where not_before <= sim.clock()"
_LISTED_AGAIN = """
    select id, array_agg(key) as keys from perdure.effect where lifecycle = 'web-job' and effect like 'call-page%'
    and status = 'done' and receipt->>'then' = 'children' group by 1 having count(distinct generation) > 1
"""
_MOST_CHOICES = 20_000


async def recount(sessions: Any) -> list[Finding]:
    """Families whose counts are not what is counted."""
    families = await sessions.fetch("select * from web_job.family")
    jobs = await sessions.fetch("select id, state, parent from web_job.job where parent is not null")
    refused = Counter(row["master"] for row in await sessions.fetch("select master from web_job.refused_child"))
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        counted[job["parent"]][_ENDS.get(job["state"], "open")] += 1
    found = []
    for family in families:
        master = family["master"]
        mine = {name: counted[master][name] for name in _COUNTS} | {"refused": refused[master]}
        mine["listed"] = sum(mine.values())
        theirs = {name: family[name] for name in mine}
        if mine != theirs:
            found.append(Finding("the counts of a family are wrong", f"{master}: {theirs}, and counted {mine}"))
    return found


async def judge(world: FamilyWorld) -> list[Finding]:
    """What is wrong once all jobs are over."""
    sessions = world.database.sessions
    found = await recount(sessions)
    jobs = {row["id"]: dict(row) for row in await sessions.fetch("select id, type, state, parent from web_job.job")}
    idents = {
        row["id"]: dict(row)
        for row in await sessions.fetch("select id, generation, final from perdure.ident where lifecycle = 'web-job'")
    }
    families = {row["master"]: dict(row) for row in await sessions.fetch("select * from web_job.family")}
    refused = defaultdict(set)
    for row in await sessions.fetch("select master, id, why from web_job.refused_child"):
        refused[row["master"]].add(row["id"])
    ends = await sessions.fetch(
        "select id, generation, count(*) from perdure.finished where lifecycle = 'web-job' group by 1, 2 "
        "having count(*) > 1"
    )
    found += [Finding("ended twice", str(tuple(row))) for row in ends]
    again = await sessions.fetch(_LISTED_AGAIN)
    found += [Finding("a page that has listed children is called after a restart", str(tuple(row))) for row in again]
    found += [Finding("a row that is due stays", str(dict(row))) for row in await sessions.fetch(_DUE)]
    found += [Finding("rejected", str(dict(row))) for row in await sessions.fetch("select * from perdure.rejected")]
    reused = [id for id in world.operators.deleted if idents[id]["generation"]]
    found += [Finding("the id of a deleted job is used once more", id) for id in reused]
    found += _rows(jobs, idents)
    found += _lost(world, jobs)
    for master, family in families.items():
        found += _family(world, master, family, jobs, idents, refused[master])
    found += _pages(world, jobs, idents, families)
    return found


def _rows(jobs: dict[str, Any], idents: dict[str, Any]) -> Iterator[Finding]:
    """Each row shows how its job has ended, and waits for nothing but for its master."""
    for id, job in jobs.items():
        final = idents.get(id, {}).get("final")
        if job["state"] in ("listed", "cancelled") and final is None and id not in idents:
            continue  # never started
        if job["state"] != final and not (job["state"] in ("listed", "cancelled") and job["parent"]):
            yield Finding("a row does not show how its job has ended", f"{id}: {job['state']}, and it is {final}")


def _lost(world: FamilyWorld, jobs: dict[str, Any]) -> Iterator[Finding]:
    for job in world.scenario.jobs:
        if job.id in world.operators.inserted and job.id not in jobs and "/" not in job.id:
            yield Finding("an inserted job is lost", job.id)


def _family(
    world: FamilyWorld, master: str, family: Any, jobs: dict[str, Any], idents: dict[str, Any], refused: set[str]
) -> Iterator[Finding]:
    """Its children are what was listed, and it has ended as its counts say."""
    children = {id.removeprefix(f"{master}/") for id, job in jobs.items() if job["parent"] == master}
    mended = {id for one, id in world.operators.mended if one == master}
    listed = {id for id in (children | refused | mended) if not id.endswith("-again")}
    yield from _listed(world, master, listed, family)
    final = idents[master]["final"]
    failed = family["failed"] + family["cancelled"] + family["refused"]
    tolerated = family["tolerates"] is None or failed <= family["tolerates"]
    left = family["waiting"] + family["open"]
    told = f"{master} is {final}: { {name: family[name] for name in (*_COUNTS, 'refused', 'tolerates', 'next_page')} }"
    if family["open"] and not _touched(world, master):
        yield Finding("a family has open children after the end", told)
    if _touched(world, master) or mended:
        return
    if final == "complete" and (left or family["next_page"] or not tolerated):
        yield Finding("a master is complete, and its family is not", told)
    broken = family["tolerates"] is not None and family["failed"] + family["cancelled"] > family["tolerates"]
    if final == "failed" and tolerated and not broken and master not in world.pages.unlistable:
        yield Finding("a master has failed, and its family has not", told)
    if final == "failed" and family["waiting"] and not broken:
        yield Finding("a master has failed before its children had their turn", told)
    if final == "cancelled" and family["waiting"]:
        yield Finding("a cancelled master has children that wait", told)


def _touched(world: FamilyWorld, master: str) -> bool:
    return any(id.startswith(f"{master}/") for id in world.operators.restarted)


def _listed(world: FamilyWorld, master: str, listed: set[str], family: Any) -> Iterator[Finding]:
    """Of each page that was read, what one of its fetches brought is on record, and nothing else."""
    fetches = world.pages.listed[master]
    sent = [sorted(set(fetches[number])) for number in sorted(fetches)]
    every = {id for page in sent for ids in page for id in ids}
    if strange := listed - every:
        yield Finding("a child that nobody has listed", f"{master}: {sorted(strange)}")
    if master in world.pages.unlistable or len(list(_choices(sent))) > _MOST_CHOICES:
        return
    read = sent[: family["page"]]
    if not any(set().union(*choice) == listed for choice in _choices(read)):
        yield Finding("children are lost", f"{master}: {sorted(listed)} of {read}, {family['page']} pages read")


def _choices(pages: list[list[tuple[str, ...]]]) -> Iterable[tuple[tuple[str, ...], ...]]:
    return product(*pages)


def _pages(
    world: FamilyWorld, jobs: dict[str, Any], idents: dict[str, Any], families: dict[str, Any]
) -> Iterator[Finding]:
    """What is complete was done, and what was done well is not told as not done."""
    works = defaultdict(list)
    for key, work in world.pages.works.items():
        works[work.job].append((key, work))
    for id, job in jobs.items():
        if id in families or not idents.get(id, {}).get("final"):
            continue
        done = [key for key, work in works[id] if work.begun]
        if job["state"] == "complete" and not done:
            yield Finding("complete, and its page did nothing", id)
    for id, of_job in works.items():
        if id not in idents:
            yield Finding("a page was called for a job that is not there", f"{id}: {[key for key, _ in of_job]}")
