"""The writes of a run: orders them, and shows the new state in queries and the Web UI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributeUpdate

from perdure._text.shown import markdown
from perdure._wire.indexed import ATTENTION, STATE
from perdure._wire.names import WRITE
from perdure._wire.writes import Answer, Fence, Gate, Move, Write, storable
from perdure._workflow.author import Author
from perdure._workflow.calling import NO_ANSWER, ONCE, SILENCE
from perdure._workflow.details import details
from perdure._workflow.fitting import check_size
from perdure._workflow.leaving import Overtaken, for_ever
from perdure._workflow.run_state import RunState, Standing
from perdure.telemetry import metrics, names

NEWEST_HOLDS = "perdure: the newest move holds"

_UNKNOWN = "what the run before has shown"
_WRITES_OF_A_TASK = 1_000_000
"""More writes than a lost workflow task can still order."""
_UNTIL_WRITTEN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20))


class Recorder:
    """Makes the writes of one run.

    Attributes:
        last_move: version of the newest write that shows a state.
        last_entering: version of the newest attempt that may have entered a state.
        in_flight: number of calls and writes under way.
        entering: number of attempts under way that enter a state with their record. The run does not know when.
    """

    def __init__(self, run: RunState, author: Author) -> None:
        self._run = run
        self._author = author
        self.last_move = self.last_entering = 0
        self.in_flight = self.entering = 0
        self._closed = False
        self._outdated = 0
        """Version since which the mirror has shown another state than the run, or another reason; 0 = never."""
        shown = workflow.info().typed_search_attributes
        self._word = None if shown.get(ATTENTION) is None else run.attention_word() or _UNKNOWN
        """Why a person is needed, as the search attribute shows it, in today's names."""
        self._state = None if shown.get(STATE) is None else run.state
        """The state that the search attribute shows; None = it shows none."""
        self._counted = run.state if run.catching_up else None
        """The last state that was counted as entered."""

    def order(self, *, move: Move | None = None, fence: Fence | None = None, given: Any = None) -> Write:
        """A write of this entity with a new version."""
        entity = self._run.entity
        return Write(
            lifecycle=entity.lifecycle,
            id=entity.id,
            generation=entity.generation,
            version=self._run.next_version(),
            workflow_id=workflow.info().workflow_id,
            move=move,
            fence=fence,
            input=given,
            born=self._run.born,
        )

    def move_to(self, state: str, why: str | None = None, by: str | None = None) -> Move:
        """The mirror part of a write that shows `state`."""
        run = self._run
        declared = run.declared.on_record(state)
        snapshot, acknowledged = run.kept(self._author)
        return Move(
            state=state,
            final=declared.final,
            attention=storable(run.attention_in(state)),
            why=storable(why),
            by=storable(by),
            snapshot=snapshot,
            acknowledged=acknowledged,
            memory=None if declared.final else run.remembered(state),
            within=declared.within.total_seconds() if declared.within else None,
            handled_doubts=run.effects.dealt_with(run.entity) if declared.final else None,
        )

    async def write(self, order: Write) -> Answer:
        """Commit `order`, and wait for the database as long as it is away.

        Raises:
            Overtaken: the entity is final, or was restarted, and the order has a move.
            TooLarge: the order is too large for Temporal.
        """
        check_size(self._run.entity, "what it writes", order)
        if order.move is not None:
            self.last_move = order.version
        async with self.under_way():
            answer = await self._commit(order)
            if order.move is not None:
                answer = await self._until_it_holds(order, order.move, answer)
        if order.move is not None and answer.gate.over:
            raise Overtaken(answer.state, answer.generation)
        return answer

    async def _commit(self, order: Write) -> Answer:
        try:
            answer: Answer = await workflow.execute_local_activity(
                WRITE,
                order,
                result_type=Answer,
                start_to_close_timeout=timedelta(seconds=5),
                retry_policy=ONCE,
                summary=markdown(order),
            )
        except NO_ANSWER:
            # An activity waits while PostgreSQL is away, without new events in the history.
            waiting: workflow.ActivityHandle[Answer] = workflow.start_activity(
                WRITE,
                order,
                result_type=Answer,
                start_to_close_timeout=timedelta(seconds=30),
                heartbeat_timeout=SILENCE,
                retry_policy=_UNTIL_WRITTEN,
                summary=markdown(f"{order}, until PostgreSQL is back"),
            )
            answer = await self._run.events.of(waiting)
        self._run.learn(answer.version)
        return answer

    async def _until_it_holds(self, order: Write, move: Move, answer: Answer) -> Answer:
        """Commit a late move again, if it is the newest of this run: a lost workflow task has made the one that stands,
        and Temporal's clock has gone back since."""
        while answer.gate is Gate.LATE and await self._stays_newest(order.version, move.state):
            order = order.model_copy(update={"version": self._run.next_version(), "fence": None})
            self.last_move = order.version
            now = await self._commit(order)
            answer = answer.model_copy(update={"gate": now.gate, "state": now.state, "unsettled": now.unsettled})
        return answer

    async def _stays_newest(self, version: int, state: str) -> bool:
        """Whether a late move is still the newest of this run in the next workflow task: a worker that was frozen in a
        lost task, and now goes on, must not write. The versions are ahead of that task then."""

        def is_newest() -> bool:
            return self.last_move == version and self._run.state == state

        if not is_newest() or not workflow.patched(NEWEST_HOLDS):
            return False
        await self._run.events.next_task("the state is written again")
        if not is_newest():
            return False
        self._run.stay_ahead(self._run.on_record + _WRITES_OF_A_TASK)
        return True

    async def move_again(self, state: str) -> None:
        """Commit the state of an attempt whose own move was late; see `_until_it_holds`."""
        if await self._stays_newest(self.last_move, state):
            await self.move(state)

    async def move(self, state: str, why: str | None = None, by: str | None = None) -> Answer:
        """Commit that the mirror shows `state`; raises as `write` does."""
        return await self.write(self.order(move=self.move_to(state, why, by)))

    async def move_here(self, why: str | None = None, by: str | None = None) -> None:
        """Commit that the mirror shows the present state; raises as `write` does."""
        await self.move(self._run.state, why, by)

    async def fence(self, fence: Fence) -> Answer:
        """Read or write an effect's record; raises as `write` does."""
        return await self.write(self.order(fence=fence))

    @asynccontextmanager
    async def under_way(self, entering: Write | None = None) -> AsyncIterator[None]:
        """Surround a call or a write. Meanwhile the run neither ends nor continues as new.

        Args:
            entering: the begin of an attempt, if it enters a state.
        """
        if self._closed:
            await for_ever()
        if entering is not None:
            self.last_entering = entering.version
        self.in_flight += 1
        self.entering += entering is not None
        try:
            yield
        finally:
            self.in_flight -= 1
            self.entering -= entering is not None

    def note_outdated(self, since: int) -> None:
        """Note that the mirror shows another state than the present one, which a lost workflow task had entered, or a
        reason to need a person that is over.

        Args:
            since: version of that state, or of the first write that does not show that reason any more.
        """
        self._outdated = since

    @property
    def is_outdated(self) -> bool:
        """Whether the mirror is still to show the present state, or that no person is needed."""
        return self._outdated > max(self.last_move, self.last_entering) and not self._run.final

    async def update_mirror(self) -> None:
        """Write the present state, if the mirror is outdated. Called where `run` may stay in it for long: before a wait
        or a new run, and at the end of an effect for which a person was needed."""
        if self.is_outdated:
            await self.move_here()

    def overwrites(self, version: int) -> bool:
        """Whether a state on record of this version was overwritten by this run, or may be in a moment."""
        return self.last_move > version or self.entering > 0

    def close(self) -> None:
        """Note that the run is over: no call or write begins in it any more."""
        self._closed = True

    def show(self, state: str, why: str | None = None) -> None:
        """Show `state` in queries and the Web UI from now on. A run that is over shows no other state: the write of it
        does not begin, and the next run would take the state for recorded."""
        if self._closed:
            return
        if self._run.set_state(state, why):
            self.publish()
        self.describe()

    def show_again(self, before: Standing) -> None:
        """Show the state before a move that was not made."""
        if self._closed:
            return
        if self._run.go_back(before):
            self.publish()
        self.describe()

    def acted(self) -> None:
        """Note that the run is further than the previous one, and has used a requested retry."""
        self._run.arrived()
        self._run.has_moved()
        self._run.requests.retry_is_done()
        self.count_state()

    def describe(self) -> None:
        """Show the present state, and the possible actions of a person, in the Web UI."""
        workflow.set_current_details(details(self._run.status()))
        self._index()

    @contextmanager
    def describing(self) -> Iterator[None]:
        """Show what has changed when the code inside is over, unless it is thrown away with its run."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException:
            self.describe()
            raise
        self.describe()

    def _index(self) -> None:
        """Show in Temporal's lists what has changed, if its server knew the attributes when it was started."""
        word, state, changed = self._run.attention_word(), self._run.state, list[SearchAttributeUpdate[str]]()
        if word != self._word:
            changed.append(ATTENTION.value_unset() if word is None else ATTENTION.value_set(word))
        if self._state is not None and self._state != state:
            changed.append(STATE.value_set(state))
            self._state = state
        self._word = word
        if changed:
            workflow.upsert_search_attributes(changed)

    def publish(self) -> None:
        """Show the state in the lifecycle's search attribute, if it has one."""
        if self._author.search_attribute is not None:
            key = SearchAttributeKey.for_keyword(self._author.search_attribute)
            workflow.upsert_search_attributes([key.value_set(self._run.state)])

    def count_state(self) -> None:
        """Count the present state as entered."""
        state, lifecycle = self._run.state, self._run.entity.lifecycle
        if state != self._counted:
            self._counted = state
            metrics.count(workflow.metric_meter(), names.STATES_ENTERED, lifecycle=lifecycle, state=state)
