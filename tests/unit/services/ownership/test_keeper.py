"""The keeper answers each claim to be the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from perdure._wire.keeper import SILENCE, Decision, Incarnation, KeeperState, Proposal, Reply

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_MARKS = count()


def server(started: int = 0, timeline: int = 1, oid: int = 5) -> Incarnation:
    return Incarnation(
        system_identifier=7, database_oid=oid, timeline=timeline, started=BEGAN + timedelta(seconds=started)
    )


class Database:
    """One that is connected to by a worker."""

    def __init__(self, kept: KeeperState, incarnation: Incarnation, mark: str | None = None, epoch: int = 0) -> None:
        self.kept = kept
        self.incarnation = incarnation
        self.mark = mark
        self.epoch = epoch
        self.writes = True
        self.seconds = 0.0

    def says(self, after: float = 1.0, **more: Any) -> Reply:
        """Exchange, `after` seconds of Temporal's clock later, and write down the answer."""
        self.seconds = max(self.seconds, CLOCK[0]) + after
        CLOCK[0] = self.seconds
        said = Proposal(mark=self.mark, next=f"m{next(_MARKS)}", incarnation=self.incarnation, epoch=self.epoch, **more)
        reply = self.kept.reply_to(said, BEGAN + timedelta(seconds=self.seconds), f"q{next(_MARKS)}")
        if reply.decision is Decision.GO and self.writes:
            self.mark, self.epoch = said.next, reply.epoch
        return reply

    def shows_that_it_lives(self) -> Reply:
        """Say it again with the response to the challenge."""
        asked = self.says()
        assert asked.decision is Decision.AGAIN
        return self.says(response=asked.challenge)

    def copy(self, incarnation: Incarnation) -> Database:
        """A copy of it as it is now, on another server."""
        return Database(self.kept, incarnation, self.mark, self.epoch)


CLOCK = [0.0]


def bound() -> Database:
    """A database that works."""
    database = Database(KeeperState(), server())
    assert database.says().decision is Decision.GO
    assert database.says().decision is Decision.GO
    return database


def test_each_mark_that_may_have_been_written_since_is_known() -> None:
    """A commit whose answer was lost may come after the next one was asked for."""
    database = bound()
    database.writes = False
    assert database.says().decision is Decision.GO
    first = database.kept.pending[-1]
    assert database.says().decision is Decision.GO
    database.mark = first
    assert database.says().decision is Decision.GO


def test_the_first_database_is_taken_and_a_second_one_is_not() -> None:
    database = bound()
    other = Database(database.kept, server(oid=6)).says()
    assert other.decision is Decision.STOP
    assert "another database" in other.why
    assert Database(database.kept, server()).says().decision is Decision.STOP, "its schema was made anew"


def test_a_database_that_temporal_does_not_know_is_stopped() -> None:
    assert Database(KeeperState(), server(), mark="m").says().decision is Decision.STOP


def test_a_restart_goes_on_at_once_in_the_same_epoch() -> None:
    database = bound()
    database.incarnation = server(started=5)
    assert database.says().decision is Decision.GO
    assert database.epoch == 0


def test_whichever_write_of_a_mark_was_lost_the_database_goes_on() -> None:
    database = bound()
    database.writes = False
    for _ in range(3):
        assert database.says().decision is Decision.GO
    database.writes = True
    for _ in range(3):
        assert database.says().decision is Decision.GO


def test_an_old_mark_on_the_same_timeline_is_stopped() -> None:
    database = bound()
    copy = database.copy(server(started=9))
    database.says()
    database.says()
    assert copy.says().decision is Decision.STOP
    assert database.says().decision is Decision.GO


def test_a_takeover_waits_until_the_server_before_is_silent_and_begins_an_epoch() -> None:
    database = bound()
    standby = database.copy(server(started=2, timeline=2))
    first = standby.says()
    assert first.decision is Decision.WAIT
    assert 0 < first.seconds <= SILENCE
    assert standby.says(after=SILENCE).decision is Decision.GO
    assert standby.epoch > database.epoch


def test_a_takeover_that_a_worker_has_come_along_with_does_not_wait() -> None:
    database = bound()
    standby = database.copy(server(started=2, timeline=2))
    assert standby.says(came_from=database.incarnation).decision is Decision.GO
    assert standby.epoch > 0
    asked = database.says()
    assert asked.decision is Decision.AGAIN
    assert database.says(response=asked.challenge).decision is Decision.STOP, "it comes back, and is too late"


def test_a_takeover_waits_where_the_keeper_was_ended_meanwhile_and_could_hear_nobody() -> None:
    database = bound()
    standby = database.copy(server(started=2, timeline=2))
    assert standby.says().decision is Decision.WAIT
    CLOCK[0] += 100 * SILENCE
    database.kept.begin_again(BEGAN + timedelta(seconds=CLOCK[0]))
    assert standby.says().decision is Decision.WAIT, "the server before has its time to be heard"
    assert standby.says(after=SILENCE).decision is Decision.GO


def test_one_that_asks_to_take_over_from_a_living_database_is_a_copy() -> None:
    database = bound()
    copy = database.copy(server(started=2, timeline=2))
    assert copy.says().decision is Decision.WAIT
    assert database.says().decision is Decision.GO
    assert copy.says().decision is Decision.STOP
    assert copy.says(after=10 * SILENCE).decision is Decision.STOP, "for good"


def test_a_living_original_puts_out_the_copy_that_was_taken_for_it() -> None:
    database = bound()
    copy = database.copy(server(started=2))
    assert copy.says().decision is Decision.GO, "it could be the original, started anew"
    reply = database.shows_that_it_lives()
    assert reply.decision is Decision.GO
    assert reply.epoch > 0, "what the copy has sent since is not on record here"
    assert copy.says().decision is Decision.STOP
    assert database.says().decision is Decision.GO


def test_a_late_message_of_a_server_that_was_restarted_puts_nobody_out() -> None:
    database = bound()
    before = database.copy(database.incarnation)
    database.incarnation = server(started=5)
    assert database.says().decision is Decision.GO
    assert before.says().decision is Decision.AGAIN
    assert database.says().decision is Decision.GO


def test_a_person_may_say_that_it_was_put_back_but_not_beside_a_living_one() -> None:
    database = bound()
    old = database.copy(server(started=9))
    database.says()
    database.says()
    assert old.says(force="restored").decision is Decision.WAIT
    assert old.says(after=SILENCE, force="restored").decision is Decision.GO
    assert old.epoch > 0
    assert old.says().decision is Decision.GO
    moved = old.copy(server(started=20, oid=9))
    assert moved.says(after=SILENCE, force="moved").decision is Decision.GO
    assert moved.epoch == old.epoch, "nothing was lost"
