"""One scenario on PostgreSQL, with real relays, played to where nothing can happen any more, and judged."""

from __future__ import annotations

import datetime as real
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from unittest.mock import patch

from perdure import _faults as faults
from perdure._services import line, pace, presence
from perdure._services import relay as relaying
from perdure._services.service import EXPECTED_ERRORS
from perdure._store import connecting, group_commit, postgres
from perdure._worker.record import check_record
from perdure.contracts.keys import Entity
from perdure.errors import DeclarationError
from perdure.testing.exploring.evidence import Sent
from perdure.testing.exploring.scenario import Event, Finding
from perdure.testing.exploring.sql_acts import OUTSIDE, Act
from perdure.testing.exploring.sql_applications import Applications
from perdure.testing.exploring.sql_client import Frontend
from perdure.testing.exploring.sql_database import SqlDatabase
from perdure.testing.exploring.sql_judge import judge_all
from perdure.testing.exploring.sql_relays import Relays, reached
from perdure.testing.exploring.sql_scenarios import SqlScenario
from perdure.testing.exploring.sql_sessions import OutsideLoop, Postgres
from perdure.testing.exploring.subject import Subject
from perdure.testing.exploring.world import World

_HELP = 80
_NEWER = 1


class SqlWorld(World):
    """Plays one scenario on PostgreSQL.

    Args:
        subject: what is explored.
        scenario: what happens.
        covered: counts each (place, event) that is seen.
        postgres: sessions with a database that `sql_clock.install` has prepared. All that its tables hold is deleted.

    Attributes:
        unfit: texts of messages that no build has a handler for.
        healed_at: when all that a scenario brings is over.
        crash_next: whether the next relay that could commit crashes instead.
    """

    loop: OutsideLoop
    scenario: SqlScenario
    database: SqlDatabase
    relay: Relays

    def __init__(
        self, subject: Subject, scenario: SqlScenario, covered: Counter[tuple[str, str]], postgres: Postgres
    ) -> None:
        self._postgres = postgres
        self.unfit: set[str] = set()
        self.crash_next: bool = False
        self.healed_at: float = 0.0
        self._relay_places: Counter[str] = Counter()
        super().__init__(subject, scenario, covered)
        self._relay_faults = {(each.place, each.number) for each in scenario.relay_faults}
        self.frontend: Frontend = Frontend(self)
        self.applications: Applications = Applications(self)

    def take_loop(self) -> OutsideLoop:
        """See base class. It is the one to which the sessions belong."""
        return self._postgres.loop

    def leave_loop(self) -> None:
        """See base class. The sockets of lost sessions are closed first."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self.loop.rewind()

    def rooms(self) -> tuple[SqlDatabase, Relays]:
        """See base class."""
        return SqlDatabase(self, self._postgres), Relays(self)

    def play(self, entity: Entity | None = None) -> list[Finding]:
        """See base class; all entities of the scenario are played."""
        with _deterministic(self):
            return super().play(cast(Entity, entity))

    def _drain(self) -> None:
        self.database.close()
        self.loop.external = 0
        super()._drain()

    def _play(self, entity: Entity) -> None:
        self.database.do(self.database.open())
        for build in self.scenario.relays:
            self.relay.start_one(build)
        for _ in self.scenario.builds:
            self.start_worker()
        for act in self.scenario.acts:
            self.loop.call_later(act.at, self._acts, act)
        for event in self.scenario.events:
            self.loop.call_later(event.at, self._event, event)
        ends = [each.at + each.seconds for each in self.scenario.acts]
        ends += [each.at + each.seconds for each in self.scenario.events]
        self.healed_at = max([1.0, *ends]) + 1.0
        self.loop.call_later(self.healed_at, self._heal)
        self._until_all_over()

    def _until_all_over(self) -> None:
        still: list[Entity] = []
        for _ in range(_HELP):
            self._run()
            if self.findings:
                return
            self.database.do(self.database.read())
            still = [each.entity for each in self.database.rows.values() if not self.is_over(each.entity)]
            if not still:
                self.findings.extend(self.database.do(judge_all(self)))
                return
            if any(self.worker_for(each.lifecycle) is None for each in still):
                self.start_worker(_NEWER)
            elif not sum(self.people.help(each) for each in still):
                each = still[0]
                execution = self.temporal.executions.get(each.workflow_id(None))
                status = self.people.status(execution) if execution and execution.open else None
                self.found("stands still", f"{each}: {status}")
            if self.findings:
                return
        self.found("never ends", f"{still}: people helped {_HELP} times, {self.loop.time():.0f} s")

    def sent(self, entity: Entity) -> list[Sent]:
        """See base class."""
        return self.applications.sent.get((entity.lifecycle, entity.id), [])

    def _heal(self) -> None:
        """All that a scenario brings is over: newer code runs, and each entity is there."""
        self.relay.start_one(_NEWER)
        self.deploy()
        for number, (lifecycle, program) in enumerate(self.scenario.entities):
            self.relay.keep(self.applications.make_sure(lifecycle, str(number), program))

    # -- what happens

    def _acts(self, act: Act) -> None:
        until = self.loop.time() + act.seconds
        if act.what in OUTSIDE:
            self.cover("outside", act.what)
        match act.what:
            case "Temporal away":
                self.frontend.away_until = until
            case "namespace gone":
                self.frontend.no_namespace_until = until
            case "Temporal loses replies":
                self.frontend.loses_replies_until = until
            case "kill relay":
                if alive := self.relay.alive:
                    self.random.choice(alive).kill()
            case "sessions lost":
                self.relay.keep(self._postgres.end_sessions())
            case "PostgreSQL restarts":
                self.database.away_until = max(self.database.away_until, until)
                self.relay.keep(self._postgres.end_sessions())
            case "start relay":
                self.relay.start_one(act.entity)
            case _:
                self.relay.keep(self.applications.do(act))

    def _event(self, event: Event) -> None:
        rows = sorted(self.database.rows)
        if rows:
            self.incidents.happen_to(self.random.choice(rows), event)

    def relay_crashes(self, place: str) -> bool:
        """Whether a relay is killed at this place now."""
        self._relay_places[place] += 1
        crashes = (place, self._relay_places[place]) in self._relay_faults
        if self.crash_next and place == "before the commit of the outbox":
            self.crash_next, crashes = False, True
        if crashes:
            self.cover("relay crashes", place)
        return crashes

    def start_worker(self, build: int | None = None) -> None:
        """See base class; it looks at the record first."""
        build = self.next_build() if build is None else build
        super().start_worker(build)
        self.relay.keep(self._check_record(build))

    async def _check_record(self, build: int) -> None:
        """What a worker looks at when it starts."""
        try:
            async with self.database.sessions.lent() as session:
                for name, lifecycle in self.subject.builds[build].lifecycles.items():
                    await check_record(session, name, lifecycle)
        except DeclarationError as error:
            self.found("a worker can't start", str(error))
        except EXPECTED_ERRORS as error:
            self.cover("a worker starts", type(error).__name__)


class Clock:
    """In place of the modules `time`, `secrets` and `random`, and the class `datetime`."""

    def __init__(self, world: SqlWorld) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.loop.time()

    def token_hex(self, count: int) -> str:
        return self._world.random.randbytes(count).hex()

    def sample(self, given: list[Any], count: int) -> list[Any]:
        return self._world.random.sample(given, count)

    def now(self, zone: real.tzinfo) -> real.datetime:
        return self._world.loop.now


@contextmanager
def _deterministic(world: SqlWorld) -> Iterator[None]:
    clock = Clock(world)
    with ExitStack() as stack:
        for module in (presence, pace, line, group_commit, postgres, connecting):
            stack.enter_context(patch.object(module, "time", clock))
        for name in ("secrets", "random"):
            stack.enter_context(patch.object(relaying, name, clock))
        stack.enter_context(patch.object(line, "datetime", clock))
        stack.enter_context(patch.object(faults, "_reached", reached))
        yield
