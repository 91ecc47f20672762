"""Bad records: what is wrong with each, how it comes in, and in which state and with which words it must be seen."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MEDICINE = "Zolpidem"
"""What everybody takes: a word that must not be seen anywhere but in the text."""


class Way(StrEnum):
    """How a patient signs up."""

    TABLE = "through the table"
    PAST = "past the table, by perdure.start"


@dataclass(frozen=True, slots=True)
class Bad:
    """One kind of bad record.

    Attributes:
        spoil: makes it of a good one.
        state: of the patient; `refused` = the app's transaction fails, `rejected` = it can't even be started.
        said: part of the reason.
        id_length: characters to which the id is filled up; 0 = it is as it is.
    """

    what: str
    way: Way
    spoil: Callable[[Any], Any]
    state: str
    said: str
    id_length: int = 0


def _with(**fields: Any) -> Callable[[Any], Any]:
    return lambda given: {**given, **fields}


def _rule(**fields: Any) -> Callable[[Any], Any]:
    def spoil(given: Any) -> Any:
        spoilt = deepcopy(given)
        spoilt["plan"]["rules"][0].update(fields)
        return spoilt

    return spoil


def _same(given: Any) -> Any:
    return given


def _as_list(given: Any) -> Any:
    return {**given, "plan": given["plan"]["rules"]}


BAD = {
    bad.what: bad
    for bad in (
        Bad("no such zone", Way.TABLE, _with(zone="Mars/Olympus"), "refused", "there is no time zone"),
        Bad("no such zone, past the table", Way.PAST, _with(zone="Mars/Olympus"), "unusable", "zone"),
        Bad("never due", Way.TABLE, _rule(rule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "unusable", "never due"),
        Bad("no telephone number", Way.TABLE, _with(phone="ask her son"), "unusable", "phone"),
        Bad("blank text", Way.TABLE, _rule(what="  "), "unusable", "what to take"),
        Bad("text that does not print", Way.TABLE, _rule(what=f"{MEDICINE}\u0007"), "unusable", "what to take"),
        Bad("a language that nobody speaks", Way.TABLE, _with(language="tlh"), "unusable", "language"),
        Bad("the plan is a list", Way.TABLE, _as_list, "refused", "the plan is empty"),
        Bad("the plan is a list, past the table", Way.PAST, _as_list, "unusable", "plan"),
        Bad("no object at all", Way.PAST, lambda _: ["nonsense"], "rejected", ""),
        Bad("no plan at all", Way.PAST, lambda _: {}, "unusable", "plan"),
        Bad("too long an id", Way.PAST, _same, "unusable", "can't be started", id_length=890),
    )
}
