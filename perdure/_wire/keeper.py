"""The messages between workers and the keeper of a database's mark, and the keeper's state. No I/O."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

TICK = 10.0
"""Seconds between two exchanges. A copy that is older than two exchanges is recognised by its mark."""
SILENCE = 1.5 * TICK
"""Seconds of silence after which a server counts as gone."""


TEMPORAL_LOST = "Temporal has no record of this database"
"""Begin of the reason for `STOP` where Temporal is not the one that the database worked with."""


class Incarnation(BaseModel):
    """A PostgreSQL server from its start to its stop, and the database in it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    system_identifier: int
    database_oid: int
    timeline: int
    started: datetime

    def is_of(self, other: Incarnation) -> bool:
        """Whether both are of one lineage. Only dumps, template copies and `pg_upgrade` begin a new one."""
        mine, theirs = (self.system_identifier, self.database_oid), (other.system_identifier, other.database_oid)
        return mine == theirs

    def __str__(self) -> str:
        return (
            f"system {self.system_identifier}, oid {self.database_oid}, timeline {self.timeline}, "
            f"started {self.started:%Y-%m-%d %H:%M:%S}"
        )


class Proposal(BaseModel):
    """A worker's proposal for the database that it is connected to.

    Attributes:
        mark: the mark in the database; None = none yet.
        next: the next mark.
        epoch: the newest epoch in the database.
        came_from: the incarnation that the same process was connected to before, by the same URL.
        response: the challenge of the last reply, sent back only after the database was read again.
        force: a person's declaration of what this database is.
    """

    mark: str | None
    next: str
    incarnation: Incarnation
    epoch: int = 0
    came_from: Incarnation | None = None
    response: str | None = None
    force: Literal["restored", "moved"] | None = None


class Decision(StrEnum):
    """The decision of the keeper."""

    GO = "go"
    """This is the bound database: write the next mark."""
    WAIT = "wait"
    """Another server sent a proposal a moment ago."""
    AGAIN = "again"
    """Read the database again, and propose again with the response."""
    STOP = "stop"
    """This database is a copy, or an older state."""


class Reply(BaseModel):
    """The keeper's answer; `epoch` is for `GO`, `seconds` for `WAIT`."""

    decision: Decision
    epoch: int = 0
    why: str = ""
    seconds: float = 0.0
    challenge: str | None = None


class KeeperState(BaseModel):
    """The keeper's state about the database.

    Attributes:
        current: the mark at the last exchange.
        pending: marks that the database may have since.
        holder: the incarnation that has these marks.
        former: the previous holder.
        vouched: whether a worker was connected to the previous holder before, or a person confirmed the takeover.
        expelled: incarnations that are copies.
        proposed_at: time of the holder's last proposal.
        waiting, waiting_since: an incarnation that waits to take over, and since when.
        challenge: the text that a former holder must send back, to show that it lives.
    """

    current: str | None = None
    pending: list[str] = Field(default_factory=list)
    holder: Incarnation | None = None
    former: Incarnation | None = None
    vouched: bool = False
    expelled: list[Incarnation] = Field(default_factory=list)
    epoch: int = 0
    proposed_at: datetime | None = None
    waiting: Incarnation | None = None
    waiting_since: datetime | None = None
    challenge: str | None = None

    def begin_again(self, now: datetime) -> None:
        """Continue after the keeper was ended from outside. It received nothing meanwhile, so a takeover waits for the
        previous server as if that had sent a proposal just now."""
        self.proposed_at = now
        self.waiting = self.waiting_since = None

    def reply_to(self, proposal: Proposal, now: datetime, challenge: str) -> Reply:
        """Answer a proposal. The reply contains `challenge` if one is needed."""
        if proposal.force is not None:
            return self._reply_to_declaration(proposal, now)
        if self.holder is None:
            if proposal.mark is not None:
                return _stop(f"{TEMPORAL_LOST}: its keeper was ended, or Temporal was lost")
            return self._accept(proposal, now)
        if not proposal.incarnation.is_of(self.holder) or (proposal.mark is None and self.current is not None):
            return _stop(f"another database works with this namespace and scope ({self.holder})")
        if proposal.incarnation in self.expelled:
            return _stop("it is a copy of a database that lives on")
        if proposal.incarnation == self.former:
            return self._reply_to_former_holder(proposal, now, challenge)
        if proposal.incarnation.timeline != self.holder.timeline:
            return self._reply_to_takeover(proposal, now)
        if proposal.mark not in (self.current, *self.pending):
            why = "its mark is not the last one: it is a copy, or an older state of it or of Temporal was put back"
            return _stop(f"{why} ({self.holder})")
        return self._accept(proposal, now)

    def _reply_to_former_holder(self, proposal: Proposal, now: datetime, challenge: str) -> Reply:
        """The former holder counted as gone. Its message may only be late, so it must show that it lives."""
        if proposal.response is None or proposal.response != self.challenge:
            self.challenge = challenge
            return Reply(decision=Decision.AGAIN, challenge=challenge)
        if self.vouched:
            return _stop(f"another server has taken over from this one ({self.holder})")
        # The successor was its copy, and may have sent something.
        assert self.holder is not None
        self.expelled, self.former = [*self.expelled, self.holder][-20:], None
        return self._accept(proposal, now, new_epoch=True)

    def _reply_to_takeover(self, proposal: Proposal, now: datetime) -> Reply:
        """A promoted standby, or a recovery to a point in time: the last commits may be missing."""
        assert self.holder is not None
        assert self.proposed_at is not None
        if proposal.came_from != self.holder:
            if self.waiting != proposal.incarnation or self.waiting_since is None:
                self.waiting, self.waiting_since = proposal.incarnation, now
            if self.proposed_at > self.waiting_since:
                self.expelled = [*self.expelled, proposal.incarnation][-20:]
                return _stop(f"it is a copy of a database that lives on ({self.holder})")
            if (left := SILENCE - (now - self.proposed_at).total_seconds()) > 0:
                return Reply(
                    decision=Decision.WAIT,
                    seconds=left,
                    why=f"the server before was in use a moment ago ({self.holder})",
                )
        return self._accept(proposal, now, new_epoch=True)

    def _reply_to_declaration(self, proposal: Proposal, now: datetime) -> Reply:
        if self.holder is not None and self.proposed_at is not None and self.holder != proposal.incarnation:
            left = SILENCE - (now - self.proposed_at).total_seconds()
            if left > 0:
                why = f"the database that this one replaces was in use a moment ago: stop its workers ({self.holder})"
                return Reply(decision=Decision.WAIT, seconds=left, why=why)
        self.expelled = [each for each in self.expelled if each != proposal.incarnation]
        if proposal.incarnation == self.former:
            self.former = None
        reply = self._accept(proposal, now, new_epoch=proposal.force == "restored")
        self.current, self.pending, self.vouched = proposal.mark, [proposal.next], True
        return reply

    def _accept(self, proposal: Proposal, now: datetime, *, new_epoch: bool = False) -> Reply:
        if self.holder is not None and self.holder != proposal.incarnation:
            if self.holder not in self.expelled:
                self.former, self.vouched = self.holder, proposal.came_from == self.holder
            self.challenge = self.waiting = self.waiting_since = None
        if proposal.mark == self.current:
            # An earlier proposal may still arrive, and its mark may be the one in the database.
            self.pending = [*self.pending, proposal.next][-50:]
        else:
            self.current, self.pending = proposal.mark, [proposal.next]
        self.holder, self.proposed_at = proposal.incarnation, now
        self.epoch = max(self.epoch, proposal.epoch)
        if new_epoch:
            self.epoch = max(int(now.timestamp() * 1_000_000), self.epoch + 1)
        return Reply(decision=Decision.GO, epoch=self.epoch)


def _stop(why: str) -> Reply:
    return Reply(decision=Decision.STOP, why=why)
