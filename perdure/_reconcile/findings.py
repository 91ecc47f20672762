"""Records the differences that a reconciliation found, and its actions."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter

from perdure._store.finding_kinds import Kind
from perdure._store.postgres import Pool
from perdure._store.sql import queries
from perdure._wire.writes import storable
from perdure.contracts.keys import Entity
from perdure.logs import log_event

query = queries(__name__)

LONGEST_ABOUT = 500
"""Bytes of `about` at most: with an id of 900 bytes it stands in an index, which takes no key over 2,700."""

log = logging.getLogger("perdure.reconciliation")


class Findings:
    """The findings of one run.

    Args:
        pool: the app's database.
        run: number of the reconciliation, from `perdure.reconciliation`.
    """

    def __init__(self, pool: Pool, run: int) -> None:
        self._pool = pool
        self._run = run
        self.mended_now: Counter[str] = Counter()
        """Number of mended differences, by kind."""
        self.reported_now: Counter[str] = Counter()
        """Number of differences that are left for a person, by kind."""

    async def mended(self, kind: Kind, entity: Entity | None, what: str, *, about: str = "") -> None:
        """Record a mended difference."""
        self.mended_now[kind.name] += 1
        await self._write(kind, entity, what, "", about, mended=True)

    async def report(self, kind: Kind, entity: Entity | None, what: str, advice: str, *, about: str = "") -> None:
        """Record a difference that is left for a person.

        Args:
            what: the difference, in a sentence without personal data.
            advice: the possible actions of the person. A command can be pasted into a shell.
            about: distinguishes two findings of one kind and entity: a state, a key.
        """
        self.reported_now[kind.name] += 1
        await self._write(kind, entity, what, advice, about, mended=False)

    async def _write(self, kind: Kind, entity: Entity | None, what: str, advice: str, about: str, mended: bool) -> None:
        lifecycle, id, generation = (entity.lifecycle, entity.id, entity.generation) if entity else ("", "", 0)
        what, advice, about = storable(what) or "", storable(advice) or "", _short(about)
        new = await self._pool.fetchval(
            query("found"), kind.name, lifecycle, id, about, generation, what, advice, mended, self._run
        )
        if new:
            level = logging.INFO if mended else logging.WARNING
            done = "mended" if mended else "found"
            log_event(log, done, level=level, kind=kind.name, lifecycle=lifecycle or None, id=id or None, what=what)


def _short(about: str) -> str:
    """`about` as the index takes it. A longer one is cut and gets a digest of the whole, so that it stays unique."""
    whole = about.encode("utf-8", "replace")
    if len(whole) > LONGEST_ABOUT:
        digest = "~" + hashlib.sha256(whole).hexdigest()[:40]
        about = whole[: LONGEST_ABOUT - len(digest)].decode(errors="ignore") + digest
    return storable(about) or ""
