"""Dosage reminders: the data of a patient, the data of a dose, and the steps from one to the other.

The lifecycle of a patient takes whatever it is given, so that a bad record is seen in that patient's own state. An
app written in Python passes it as a `SignUp`, which refuses what can't work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    model_serializer,
)

from activities.reminders.contracts.plan import Plan, QuietHours, Zone
from activities.telephony.contracts import Channel, Reported
from perdure import Step
from perdure.encryption import Private, PrivatePattern

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
"""The texts for patients, by language."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Schedule(_Record):
    """The data that determines the times of doses."""

    plan: Plan
    zone: Zone


class SignUp(Schedule):
    """A patient whose reminders can work.

    Attributes:
        plan: the doses and their times.
        zone: the IANA zone in which the plan's times are meant.
        phone: in E.164: `+`, then 7 to 15 digits.
        channel: how to reach the patient; the other one is taken where this one is refused.
        language: a BCP 47 tag whose language is one of `LANGUAGES`.
        quiet_hours: local hours in which nothing is sent; None = it may go at any time.
        confirm: wait, within the dose's window, for the provider's report of the delivery, and take the other
            channel where it was not. It needs status callbacks.

    Raises:
        ValidationError: it can't work; the message has the place and the reason.
    """

    phone: Annotated[Private, PrivatePattern(E164)]
    channel: Channel = Channel.SMS
    language: Annotated[str, Field(pattern=rf"^({'|'.join(LANGUAGES)})(-[A-Za-z0-9]{{2,8}})*$")] = "en"
    quiet_hours: QuietHours | None = None
    confirm: bool = False

    def patient(self) -> Patient:
        """The input of the lifecycle."""
        return Patient.model_validate(self.model_dump())


def _read(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Read a private text. What is none, such as a text that is sealed for another patient, stays as it is."""
    try:
        return read(given)
    except ValidationError:
        return given


def _written(value: Any, write: SerializerFunctionWrapHandler) -> Any:
    return write(value) if isinstance(value, Private) else value


PrivateAsGiven = Annotated[Private, WrapValidator(_read), WrapSerializer(_written)]
"""A private text, not yet looked at. Each plain text is one; `SignUp` refuses what is none."""


class RuleAsGiven(BaseModel):
    """A rule, not yet looked at."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    what: PrivateAsGiven | None = None


class PlanAsGiven(BaseModel):
    """A plan, not yet looked at."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    rules: Annotated[list[Annotated[RuleAsGiven | Any, Given]] | Any, Given] = None


class _PatientAsGiven(BaseModel):
    """The data of a patient, not yet looked at."""

    plan: Annotated[PlanAsGiven | Any, Given] = None
    zone: Any = None
    phone: PrivateAsGiven | None = None
    channel: Any = Channel.SMS
    language: Any = "en"
    quiet_hours: Any = None
    confirm: Any = False


class Patient(_PatientAsGiven):
    """A patient as the app gave it; see `SignUp` for what it should be.

    Attributes:
        paused: nothing is sent at first: the reminders of a patient who had paused are restarted.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    paused: Any = False

    def checked(self) -> SignUp:
        """The same, as it should be.

        Raises:
            ValidationError: it is not.
        """
        return SignUp.model_validate(self.model_dump(exclude={"paused"}))

    def schedule(self) -> Schedule:
        """The data that determines the times of doses, even if nothing can be sent.

        Raises:
            ValidationError: the data determines no times.
        """
        return Schedule.model_validate(self.model_dump(include={"plan", "zone"}))


class Since(_Record):
    """When the app has made a change, by its database's clock; None = when the change arrives."""

    at: AwareDatetime | None = None


class Change(_PatientAsGiven):
    """A change of a patient: the given fields. `at`: as in `Since`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    at: AwareDatetime | None = None

    @model_serializer(mode="wrap")
    def _only_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}

    def made_to(self, patient: Patient) -> Patient:
        """The patient from now on."""
        return Patient.model_validate({**patient.model_dump(), **self.model_dump()})


class Asked(_Record):
    """Something that the app has asked for: one of these.

    Attributes:
        at: since when it holds. Until then everything is due as it was before.
        change: the change of the patient's data.
        paused: whether nothing is to be sent.
        signed_off: it is to end.
    """

    at: AwareDatetime
    change: Change | None = None
    paused: bool | None = None
    signed_off: bool = False

    @property
    def stops(self) -> str | None:
        """Why doses that have not gone yet are withdrawn; None if they go."""
        if self.signed_off:
            return "the patient has signed off"
        return "the patient has paused" if self.paused else None

    @property
    def size(self) -> int:
        """Bytes as JSON."""
        return len(self.model_dump_json().encode())

    def without_plan(self) -> Asked:
        """The same without the plan of its change."""
        assert self.change is not None
        change = Change.model_validate(self.change.model_dump(exclude={"plan"}))
        return self.model_copy(update={"change": change})


MOST_WAITING = 900_000
"""Bytes of the requests that a snapshot holds, which has room for them beside the largest plan."""


def bounded(asked: Iterable[Asked]) -> tuple[Asked, ...]:
    """The requests, if need be without the plans that another one replaced the soonest: the doses that were due
    meanwhile are then treated by the plan before. The last plan always stays."""
    kept = list(asked)
    sizes = [each.size for each in kept]
    plans = [n for n, each in enumerate(kept) if each.change and "plan" in each.change.model_fields_set]
    while sum(sizes) > MOST_WAITING and len(plans) > 1:
        soonest, _ = min(pairwise(plans), key=lambda pair: kept[pair[1]].at - kept[pair[0]].at)
        kept[soonest] = kept[soonest].without_plan()
        sizes[soonest] = kept[soonest].size
        plans.remove(soonest)
    return tuple(kept)


class Open(_Record):
    """A started dose, and the time at which it is over in any case."""

    id: str
    until: AwareDatetime


class Upto(_Record):
    """Up to when everything that was due has been dealt with.

    Attributes:
        at: the instant.
        local: the local time of the patient then. By another zone, or a newer zone database, the same reading may be
            at another instant: what lies between has been due by neither. None where no clock was looked at.
        zone: whose clock that was.
    """

    at: AwareDatetime
    local: datetime | None = None
    zone: str | None = None


class Turn(_Record):
    """Deal with each dose that was due by a moment, and look ahead.

    Attributes:
        patient: as given.
        upto: earlier turns have processed the doses that were due by then.
        until: the moment.
        now: by the workflow's clock.
        since: since when rules have been in the plan, where that is not `upto`, by id.
        withheld: why nothing is sent. Due doses are then recorded as not started.
    """

    patient: Patient
    upto: Upto
    until: AwareDatetime
    now: AwareDatetime
    since: dict[str, AwareDatetime] = {}
    withheld: str | None = None


class Ahead(_Record):
    """The result of a turn, and the next turn.

    Attributes:
        problem: why nothing can be sent to this patient, and nothing was done; None = all is well.
        started: the doses that it started, those of which it found that they had been, too.
        upto: for the next turn.
        more: whether further doses are due, so that the next turn follows at once.
        next_at: when the next turn is to be taken; None = the plan is through.
    """

    problem: str | None = None
    started: tuple[Open, ...] = ()
    upto: Upto
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
        to, text: the telephone number, and the text.
        language: of the text.
        channels: ways to send it; the second is taken where the first is refused.
        due: when it is due.
        openings: when it may be sent; none = its whole window lies in the quiet hours.
        confirm: wait for the provider's report of the delivery.
    """

    to: Private
    text: Private
    language: str
    channels: tuple[Channel, ...]
    due: AwareDatetime
    openings: tuple[Opening, ...]
    confirm: bool = False


class Reports(_Record):
    """The provider's last reports about a dose, by the reference of the message."""

    last: dict[str, Reported] = {}


TURN = Step[Turn, Ahead]("take-turn", timeout=timedelta(seconds=8))
WITHDRAW = Step[Withdrawal, int]("withdraw-doses")


class Memory(_Record):
    """The state that the lifecycle of a patient keeps.

    Attributes:
        patient: as the messages have made it.
        upto, since: for the next turn.
        open: doses that were started, and may not be over yet.
        paused, signed_off: as asked.
        asked: the requests that have not been carried out yet.
    """

    patient: Patient
    upto: Upto
    since: dict[str, AwareDatetime] = {}
    open: tuple[Open, ...] = ()
    paused: bool = False
    signed_off: bool = False
    asked: tuple[Asked, ...] = ()

    def concerned_by(self, asked: Asked) -> bool:
        """Whether the doses that were due before the request must be processed before it applies."""
        if asked.change is None:
            return True
        after = asked.change.made_to(self.patient)
        if after.zone != self.patient.zone or times(after.plan) != times(self.patient.plan):
            return True
        # Whether a clock that was put past a dose was put past its window, too, depends on the window of then.
        put_past = self.upto.zone not in (None, self.patient.zone)
        return put_past and windows(after.plan) != windows(self.patient.plan)

    def after(self, asked: Asked) -> Memory:
        """The state after the request. A rule that is new, or has other times, counts from then on."""
        if asked.change is None:
            paused = self.paused if asked.paused is None else asked.paused
            return self.model_copy(update={"paused": paused, "signed_off": self.signed_off or asked.signed_off})
        patient = asked.change.made_to(self.patient)
        before, after = times(self.patient.plan), times(patient.plan)
        kept = {id: since for id, since in self.since.items() if id in after}
        since = kept | {id: asked.at for id, when in after.items() if before.get(id) != when}
        return self.model_copy(update={"patient": patient, "since": since})

    def following(self, ahead: Ahead, now: datetime) -> Memory:
        """The state after a turn."""
        if ahead.problem is not None:
            return self
        known = {each.id: each for each in (*self.open, *ahead.started) if each.until > now}
        since = self.since if ahead.more else {}
        return self.model_copy(update={"upto": ahead.upto, "since": since, "open": tuple(known.values())})


def times(plan: Any) -> dict[str, str]:
    """The parts of a plan that determine times, by the ids of its rules."""
    return _of_rules(plan, "rule", "start", "except_for")


def windows(plan: Any) -> dict[str, str]:
    """How long each dose of a plan, as given, is of use: by the ids of its rules."""
    return _of_rules(plan, "window")


def _of_rules(plan: Any, *keys: str) -> dict[str, str]:
    rules = plan.rules if isinstance(plan, PlanAsGiven) and isinstance(plan.rules, list) else []
    given = [each.model_dump(mode="json") for each in rules if isinstance(each, RuleAsGiven)]
    return {str(each.get("id")): json.dumps([each.get(key) for key in keys]) for each in given}
