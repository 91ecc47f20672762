"""A patient's plan: doses by recurrence rules (RFC 5545) in the patient's own time. Strict, with reasons.

A plan that these models take has rules that can be answered in bounded time, each due at least once. See ../plans.md
for how to write one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from activities.reminders.contracts.calendar.rules import Recurrence, recurrence
from activities.reminders.contracts.calendar.zones import Zone
from perdure.encryption import Private

__all__ = ["Due", "Opening", "Plan", "QuietHours", "Rule", "Zone", "reason"]

HORIZON: Final = timedelta(days=3653)
"""Ten years. A dose that is not due within them is never due."""
MOST_RULES: Final = 50
MOST_EXCEPTIONS: Final = 400
LARGEST_PLAN: Final = 600_000
"""Bytes of a plan as JSON. A snapshot of the patient's lifecycle has room for it and for the changes that wait."""
_ZONES_APART: Final = timedelta(hours=24)


def _name(given: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", given):
        raise ValueError(f"{given[:60]!r}: give 1 to 40 of a-z, 0-9 and -, the first one not -")
    return given


def _local(given: Any) -> datetime:
    try:
        read = datetime.fromisoformat(given) if isinstance(given, str) and len(given) > 10 else given
    except ValueError:
        read = None
    if not isinstance(read, datetime):
        raise ValueError(f"{str(given)[:40]!r} is no date and time: give one, such as 2027-01-31T08:00")
    if read.tzinfo is not None:
        raise ValueError(f"{read.isoformat()} has an offset: leave it out, the zone is the patient's")
    if read.second or read.microsecond or not 2000 <= read.year < 2200:
        raise ValueError(f"{read.isoformat()}: give whole minutes, from the year 2000 to 2199")
    return read.replace(fold=0)


def _clock(given: Any) -> time:
    try:
        read = time.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        read = None
    if not isinstance(read, time) or read.tzinfo is not None or read.second or read.microsecond:
        raise ValueError(f"{str(given)[:40]!r}: give a local time in whole minutes, such as 22:00")
    return read.replace(fold=0)


def _duration(given: Any) -> Any:
    if not isinstance(given, str | timedelta):
        raise ValueError(f"{str(given)[:40]}: give its unit as well, such as PT90M for 90 minutes")
    return given


def _window(given: timedelta) -> timedelta:
    if not timedelta(minutes=1) <= given <= timedelta(hours=23):
        raise ValueError(f"the window is {given}: give 1 minute (PT1M) to 23 hours (PT23H)")
    return given


def _few(given: Any) -> Any:
    if isinstance(given, list | tuple) and not 1 <= len(given) <= MOST_RULES:
        raise ValueError(f"the plan has {len(given)} rules: give 1 to {MOST_RULES}")
    return given


def _not_too_many(given: Any) -> Any:
    if isinstance(given, list | tuple) and len(given) > MOST_EXCEPTIONS:
        raise ValueError(f"{len(given)} times are left out, more than {MOST_EXCEPTIONS}: give a new start, or UNTIL")
    return given


LocalTime = Annotated[datetime, BeforeValidator(_local)]
"""A local date and time of the patient. The zone determines the instant."""
_STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Rule(BaseModel):
    """A recurring dose.

    Attributes:
        id: its name within the plan, part of the ids of its doses: a-z, 0-9 and -, 1 to 40 of them. A rule that is
            replaced by one for something else gets another id.
        rule: a recurrence rule, such as `FREQ=DAILY;BYHOUR=8,20`. Missing parts come from `start`.
        start: from when on; itself due only where the rule makes it so.
        what: the text for the patient.
        window: for how long after it was due it is of use; 1 minute to 23 hours.
        spread: up to how long after it is due it may be sent, so that not all are sent at once; less than `window`.
        except_for: local times at which it is not due after all; COUNT counts them.
    """

    model_config = _STRICT

    id: Annotated[str, AfterValidator(_name)]
    rule: str
    start: LocalTime
    what: Private
    window: Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_window)] = timedelta(minutes=60)
    spread: Annotated[timedelta, BeforeValidator(_duration)] = timedelta(0)
    except_for: Annotated[tuple[LocalTime, ...], BeforeValidator(_not_too_many)] = ()

    @property
    def recurrence(self) -> Recurrence:
        """The rule as it was read."""
        return recurrence(self.rule, self.start)

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        if not timedelta(0) <= self.spread < self.window:
            raise ValueError(f"spread is {self.spread}: give 0 or more, and less than the window, {self.window}")
        self._check_due()
        return self

    def _check_due(self) -> None:
        rule = self.recurrence
        last = self.start + HORIZON
        if (until := rule.parts.until) is not None and until.tzinfo is not None:
            last = min(last, until.replace(tzinfo=None) + _ZONES_APART)  # in some zone it may still be due
        omitted = set(self.except_for)
        if all(each in omitted for each in rule.times(self.start, last)):
            raise ValueError(
                f"{self.rule[:60]!r} is never due in the ten years from {self.start.isoformat()} on: "
                "look at UNTIL, at except_for, and for days that no month has"
            )


class Plan(BaseModel):
    """All that is due for a patient: 1 to 50 rules, each with an id of its own."""

    model_config = _STRICT

    rules: Annotated[tuple[Rule, ...], BeforeValidator(_few)]

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        ids = [rule.id for rule in self.rules]
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            raise ValueError(f"{', '.join(twice)}: more than one rule has this id: give each its own")
        return self

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Self:
        if (size := len(self.model_dump_json().encode())) > LARGEST_PLAN:
            raise ValueError(f"the plan has {size} bytes: give {LARGEST_PLAN} at most")
        return self


class QuietHours(BaseModel):
    """When nothing may be sent, by the patient's clock: from `start` to before `end`, also across midnight."""

    model_config = _STRICT

    start: Annotated[time, BeforeValidator(_clock)]
    end: Annotated[time, BeforeValidator(_clock)]

    @model_validator(mode="after")
    def _have_a_length(self) -> Self:
        if self.start == self.end:
            raise ValueError(f"the quiet hours begin and end at {self.start}: leave them out, or end the plan")
        return self


@dataclass(frozen=True)
class Due:
    """One time at which a rule is due.

    Attributes:
        rule: the rule's id.
        local: the local time that the rule names, without an offset; it stays what it is when the zone changes.
        at: the instant of it, in UTC; where `local` does not exist that day, the next that does.
    """

    rule: str
    local: datetime
    at: datetime


class Opening(NamedTuple):
    """From when until before when something may be sent, in UTC."""

    start: datetime
    until: datetime


def reason(error: ValidationError) -> str:
    """Why a plan is refused, in one line: where, and what to do. It contains no text of `what`."""
    first, *others = error.errors(include_input=False, include_url=False, include_context=False)
    where = ".".join(str(each) for each in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {len(others)} more)" if others else ""
    return f"{where}: {message}{more}" if where else f"{message}{more}"
