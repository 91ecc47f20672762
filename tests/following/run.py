"""One random run: steps of writers and followers, and between them what happens to servers and months."""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import asyncpg

from perdure.servers.postgres import PostgresServer
from tests.following.followers import TABLES, Follower, FromNow, Inside, Outside
from tests.following.model import Account, Broken, Truth
from tests.following.servers import Servers
from tests.following.writers import Connection, Writer, finish

EVENTS = {
    "crash": 10, "restart": 1, "burn": 3, "old_month": 2, "drop_month": 2, "cold_copy": 1, "hot_copy": 1, "put_back": 2,
    "dump": 1, "restore": 2, "move": 2, "standby": 1, "stop_standby": 1, "fail_over": 2,
}  # fmt: skip
"""What happens, and how often."""
WRITERS = 4


@dataclass(slots=True)
class Saved:
    """Something to go back to: a data directory, a dump or a standby, and what was committed then."""

    what: Path | PostgresServer
    truth: Truth
    inside: Account


class Run:
    """A run of a seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self.luck = random.Random(seed)
        self.seed, self.steps = seed, steps
        self.truth = Truth()
        self.held: set[str] = set()
        self.happened: Counter[str] = Counter()
        self.log: list[str] = []
        self.inside = Inside("inside", self.luck)
        self.followers: list[Follower] = [self.inside, *(Outside(f"outside {n}", self.luck) for n in (1, 2))]
        self.followers.append(FromNow("from now", self.luck))
        self.copies: list[Saved] = []
        self.dumps: list[Saved] = []
        self.standby: Saved | None = None
        self.months: list[date] = []
        self.number = 0

    async def play(self) -> None:
        """Play it.

        Raises:
            Broken: a promise was; with what had happened before.
        """
        async with Servers() as self.servers:
            try:
                await self._connect()
                await self.db.execute(TABLES)
                await self.db.execute("insert into kept values ('inside', null)")
                for _ in range(self.steps):
                    await self._step()
                await self._no_transactions()
                for follower in self.followers:
                    await follower.drain(self.db, self.truth)
            except Broken as broken:
                raise Broken("\n".join([f"seed {self.seed}: {broken}", *self.log[-60:]])) from None
            finally:
                self._disconnect()
                if self.standby is not None and isinstance(self.standby.what, PostgresServer):
                    self.standby.what.kill()
        self.happened["refused"] = sum(len(follower.refusals) for follower in self.followers)
        self.happened["committed"] = len(self.truth.events | self.truth.gone)

    async def _step(self) -> None:
        kind = self.luck.choices(["write", "follow", "event"], [60, 30, 7])[0]
        if kind == "write":
            name = await self.luck.choice(self.writers).step()
        elif kind == "follow":
            follower = self.luck.choice(self.followers)
            self.log.append(f"{follower.name} reads")
            name = f"{follower.name}: {await follower.step(self.db, self.truth)}"
        else:
            chosen = self.luck.choices(list(EVENTS), list(EVENTS.values()))[0]
            self.log.append(f"-- {chosen}")
            name = f"-- {chosen}: {'done' if await getattr(self, '_' + chosen)() is not False else 'not now'}"
            self.happened[chosen] += name.endswith("done")
        self.log.append(name)

    # what happens

    async def _crash(self) -> None:
        self._disconnect()
        self.servers.crash()
        await self._connect()

    async def _restart(self) -> None:
        self._disconnect()
        self.servers.primary.restart()
        await self._connect()

    async def _burn(self) -> None:
        """Transactions that are rolled back take numbers, and leave nothing that is flushed."""
        for _ in range(self.luck.randint(1, 8)):
            await self.db.execute("begin; select pg_current_xact_id(); rollback")

    async def _old_month(self) -> None:
        """Something is put on record with a time of long ago."""
        month = date(2020 + len(self.months) // 12, len(self.months) % 12 + 1, 1)
        self.months = [*self.months, month] if not self.months or self.luck.random() < 0.5 else self.months
        self.number += 1
        entity = f"old{self.number}"
        await self.db.execute("select perdure.make_month($1)", self.months[-1])
        if await self.db.fetchval(
            "select true from perdure.month where month = $1 and dropping_at is not null", self.months[-1]
        ):
            self.months.append(date(2020 + len(self.months) // 12, len(self.months) % 12 + 1, 1))
            await self.db.execute("select perdure.make_month($1)", self.months[-1])
        at = await self.db.fetchval(
            "insert into perdure.transition (lifecycle, id, generation, version, state, at) "
            "values ('order', $1, 0, 0, 's', $2::date + make_interval(secs => $3)) returning at",
            *(entity, self.months[-1], self.number),
        )
        self.truth.commit([(entity, 0, at.isoformat())])

    async def _drop_month(self) -> bool:
        months = await self.db.fetch(
            "select to_date(right(relname, 7), 'YYYY_MM') as month, relname from pg_class "
            "where relname ~ '^transition_202[0-5]_..$' and relkind = 'r' and relnamespace = 'perdure'::regnamespace "
            "order by 1"
        )
        if not months:
            return False
        month, name = months[0]
        await self._no_transactions()
        await self.db.execute("select perdure.note_dropping($1)", month)
        await self.db.execute(f"alter table perdure.transition detach partition perdure.{name} concurrently")
        await self.db.execute("select perdure.note_dropping($1)", month)
        await self.db.execute(f"drop table perdure.{name}")
        await self.db.execute("update perdure.month set dropped_at = now() where month = $1", month)
        went = {event for event in self.truth.events if event[2].startswith(f"{month:%Y-%m}")}
        self.truth.gone |= went
        self.truth.events -= went
        return bool(went)

    async def _cold_copy(self) -> None:
        self._disconnect()
        self.copies.append(self._saved(self.servers.copy(cold=True)))
        await self._connect()

    async def _hot_copy(self) -> None:
        self.copies.append(self._saved(self.servers.copy(cold=False)))

    async def _put_back(self) -> bool:
        if not self.copies:
            return False
        saved = self.copies[-1]
        assert isinstance(saved.what, Path)
        self._disconnect()
        await self._drop_standby()
        self.servers.put_back(saved.what)
        await self._back_to(saved)
        return True

    async def _dump(self) -> None:
        self.dumps.append(self._saved(self.servers.dump()))
        self.dumps[-1].truth.prepared.clear()

    async def _restore(self) -> bool:
        if not self.dumps:
            return False
        saved = self.dumps[-1]
        assert isinstance(saved.what, Path)
        await self._roll_back_all()
        self.number += 1
        await self.servers.restore(saved.what, self.luck.choice([self.servers.database, f"app{self.number}"]))
        await self._drop_standby()
        self.copies.clear()
        await self._back_to(saved)
        return True

    async def _move(self) -> None:
        await self._roll_back_all()
        saved = self._saved(Path())
        await self._drop_standby()
        self.copies.clear()
        await self.servers.move(self.luck.choice([0, 1, 10, 1000]))
        await self._back_to(saved)

    async def _standby(self) -> bool:
        if self.standby is not None:
            return False
        server = self.servers.standby()
        self.standby = self._saved(server)
        return True

    async def _stop_standby(self) -> bool:
        """What comes from now on it will not have."""
        if self.standby is None or not isinstance(self.standby.what, PostgresServer) or not self.standby.what.running:
            return False
        server = self.standby.what
        await self.servers.caught_up(server)
        server.stop()
        self.standby = self._saved(server)
        return True

    async def _fail_over(self) -> bool:
        if self.standby is None or not isinstance(self.standby.what, PostgresServer):
            return False
        server = self.standby.what
        if server.running:
            await self.servers.caught_up(server)
            self.standby = self._saved(server)
        saved, self.standby = self.standby, None
        self._disconnect()
        self.copies.clear()
        await self.servers.fail_over(server)
        await self._back_to(saved)
        return True

    # what these need

    def _saved(self, what: Path | PostgresServer) -> Saved:
        return Saved(what, self.truth.copy(), copy.deepcopy(self.inside.account))

    async def _back_to(self, saved: Saved) -> None:
        self._disconnect()
        server = self.truth.server + 1
        self.truth = saved.truth.copy()
        self.truth.server = server
        self.inside.account = copy.deepcopy(saved.inside)
        await self._connect()

    async def _roll_back_all(self) -> None:
        await self._no_transactions()
        for name in sorted(self.truth.prepared):
            await finish(self.db, self.truth, self.held, name, commit=random.Random(name).random() < 0.7)
        self._disconnect()

    async def _no_transactions(self) -> None:
        """Sessions end, so that nothing stands in the way; prepared transactions are ended."""
        self._disconnect()
        await self._connect()
        for name in sorted(self.truth.prepared):
            await finish(self.db, self.truth, self.held, name, commit=random.Random(name).random() < 0.7)

    async def _drop_standby(self) -> None:
        if self.standby is not None and isinstance(self.standby.what, PostgresServer):
            self.standby.what.kill()
        self.standby = None

    async def _connect(self) -> None:
        self.db: Connection = await asyncpg.connect(self.servers.dsn)
        self.sessions = [await asyncpg.connect(self.servers.dsn) for _ in range(WRITERS)]
        # As a worker does when it starts: in a database that is new, the first call waits for those who write.
        await self.db.execute("select perdure.feed_here()")
        self.held = {entity for events in self.truth.prepared.values() for entity, *_ in events}
        self.writers = [Writer(db, self.truth, self.held, self.luck) for db in self.sessions]
        await self._check_record()

    async def _check_record(self) -> None:
        """The database has what the writers know to be committed: else it was not the feed that lost it."""
        rows = await self.db.fetch("select id, version, at from perdure.transition where seq > 0")
        found = {(row["id"], row["version"], row["at"].isoformat()) for row in rows}
        if found != self.truth.events:
            self.happened["lost by the database"] += len(self.truth.events - found)
            if found - self.truth.events:
                raise AssertionError(f"the check is wrong: {sorted(found - self.truth.events)[:3]} {self.log[-20:]}")
            self.truth.events = found

    def _disconnect(self) -> None:
        for db in (self.db, *self.sessions):
            db.terminate()
