"""Dosage reminders: what is known of a patient, what a dose is, and the steps that lead from one to the other.

The lifecycle of a patient takes whatever it is given, so that a bad record is seen in that patient's own state. An
app written in Python says it as a `SignUp`, which refuses what can't work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from activities.contracts.plan import Plan, QuietHours, Zone
from activities.contracts.telephony import Channel, Reported
from perdure import Private, PrivatePattern, Step, seconds

Given = Field(union_mode="left_to_right")
E164 = r"\+[1-9][0-9]{6,14}"
LANGUAGES: Mapping[str, str] = {
    "de": "Bitte jetzt einnehmen: {what}.",
    "en": "It is time to take: {what}.",
    "es": "Es hora de tomar: {what}.",
    "fr": "C'est l'heure de prendre : {what}.",
    "it": "È ora di prendere: {what}.",
    "nl": "Het is tijd om in te nemen: {what}.",
    "pt": "Está na hora de tomar: {what}.",
}
"""What a patient is told, by language."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SignUp(_Record):
    """A patient whose reminders can work.

    Attributes:
        plan: what to take when.
        zone: the IANA zone in which the plan's times are meant.
        phone: in E.164: `+`, then 7 to 15 digits.
        channel: how to reach the patient; the other one is taken where this one is refused.
        language: a BCP 47 tag whose language is one of `LANGUAGES`.
        quiet_hours: local hours in which nothing is sent; None = it may go at any time.
        confirm: wait, within the dose's window, for the provider to say that it was delivered, and take the other
            channel where it was not. It needs status callbacks.

    Raises:
        ValidationError: it can't work; the message says where and why.
    """

    plan: Plan
    zone: Zone
    phone: Annotated[Private, PrivatePattern(E164)]
    channel: Channel = Channel.SMS
    language: Annotated[str, Field(pattern=rf"^({'|'.join(LANGUAGES)})(-[A-Za-z0-9]{{2,8}})*$")] = "en"
    quiet_hours: QuietHours | None = None
    confirm: bool = False

    def patient(self) -> Patient:
        """What to start the lifecycle with."""
        return Patient.model_validate(self.model_dump())


class RuleAsGiven(BaseModel):
    """A rule, not yet looked at."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    what: Annotated[Private | Any, Given] = None


class PlanAsGiven(BaseModel):
    """A plan, not yet looked at."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    rules: Annotated[list[Annotated[RuleAsGiven | Any, Given]] | Any, Given] = None


class Patient(BaseModel):
    """A patient as the app gave it; see `SignUp` for what it should be."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    plan: Annotated[PlanAsGiven | Any, Given] = None
    zone: Any = None
    phone: Annotated[Private | Any, Given] = None
    channel: Any = Channel.SMS
    language: Any = "en"
    quiet_hours: Any = None
    confirm: Any = False

    def checked(self) -> SignUp:
        """The same, as it should be.

        Raises:
            ValidationError: it is not.
        """
        return SignUp.model_validate(self.model_dump())


class Change(Patient):
    """What is new about a patient: the fields that are given."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @model_serializer(mode="wrap")
    def _only_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}

    def made_to(self, patient: Patient) -> Patient:
        """The patient from now on."""
        return Patient.model_validate({**patient.model_dump(), **self.model_dump()})


class Open(_Record):
    """A dose that was started, and from when on it is over whatever became of it."""

    id: str
    until: AwareDatetime


class Turn(_Record):
    """Start the doses that are due, and look ahead.

    Attributes:
        patient: as given.
        upto: doses that were to go by then were started in an earlier turn.
        now: by the workflow's clock.
        since: since when rules are in the plan that were not always in it, by id.
        moved: when the patient last came into another zone: what was over there by then, was not missed.
        at_once: start also those that are due, and were to wait a little so as not to come all at once.
    """

    patient: Patient
    upto: AwareDatetime
    now: AwareDatetime
    since: dict[str, AwareDatetime] = {}
    moved: AwareDatetime | None = None
    at_once: bool = False


class Ahead(_Record):
    """What a turn did, and what comes next.

    Attributes:
        problem: why nothing can be sent to this patient; None = all is well.
        started: the doses that it started, those of which it found that they had been, too.
        upto: for the next turn.
        more: there are more than one turn starts: the next one is to follow at once.
        next_at: when the next turn is to be taken; None = the plan is through.
    """

    problem: str | None = None
    started: tuple[Open, ...] = ()
    upto: AwareDatetime
    more: bool = False
    next_at: AwareDatetime | None = None


class Withdrawal(_Record):
    """Doses that are not to be sent any more, where that is still possible."""

    doses: tuple[str, ...]
    why: str


class Opening(_Record):
    """A time in which a dose may be sent: from `start` until before `until`."""

    start: AwareDatetime
    until: AwareDatetime


class Dose(_Record):
    """One reminder of one dose.

    Attributes:
        to, text: the telephone number, and what is said.
        language: of the text.
        channels: ways to send it; the second is taken where the first is refused.
        due: when it is due.
        openings: when it may be sent; none = its whole window lies in the quiet hours.
        confirm: wait for the provider to say that it was delivered.
    """

    to: Private
    text: Private
    language: str
    channels: tuple[Channel, ...]
    due: AwareDatetime
    openings: tuple[Opening, ...]
    confirm: bool = False


class Reports(_Record):
    """What the provider said last of a dose, by the reference of what was sent."""

    last: dict[str, Reported] = {}


TURN = Step[Turn, Ahead]("take-turn", timeout=seconds(8))
WITHDRAW = Step[Withdrawal, int]("withdraw-doses")


class Memory(_Record):
    """What the lifecycle of a patient keeps.

    Attributes:
        patient: as the messages have made it.
        upto, since, moved: for the next turn.
        open: doses that were started, and may not be over yet.
        paused, signed_off: as asked.
    """

    patient: Patient
    upto: AwareDatetime
    since: dict[str, AwareDatetime] = {}
    moved: AwareDatetime | None = None
    open: tuple[Open, ...] = ()
    paused: bool = False
    signed_off: bool = False

    def changed(self, change: Change, now: datetime) -> Memory:
        """What it keeps after a change. A rule that is new, or has other times, counts from now on."""
        patient = change.made_to(self.patient)
        before, after = times(self.patient.plan), times(patient.plan)
        kept = {id: since for id, since in self.since.items() if id in after}
        since = kept | {id: now for id, told in after.items() if before.get(id) != told}
        moved = self.moved if patient.zone == self.patient.zone else now
        return self.model_copy(update={"patient": patient, "since": since, "moved": moved})


def times(plan: Any) -> dict[str, str]:
    """What of a plan, as given, says when: by the ids of its rules."""
    rules = plan.rules if isinstance(plan, PlanAsGiven) and isinstance(plan.rules, list) else []
    told = [each.model_dump(mode="json") for each in rules if isinstance(each, RuleAsGiven)]
    keys = ("rule", "start", "except_for")
    return {str(each.get("id")): json.dumps([each.get(key) for key in keys]) for each in told}
