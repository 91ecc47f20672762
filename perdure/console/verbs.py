"""The acts that the console offers, in the words of its pages. `perdure._operations.acts` carries them out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from perdure._operations.acts import Acts
from perdure._operations.consequences import ANSWERS
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import InvalidSetting, NotNow

Fields = Mapping[str, str]
LONGEST_NOTE = 2000
"""Characters of a reason."""
Parts = Sequence[Any]
"""The parts of an entity that an act is for: the key of each effect in doubt, with the number of its last attempt, the
key of the effect to be sent again, or the numbers of rejected rows."""
Act = Callable[[Acts, Entity, Parts, Fields], Awaitable[str]]


class Among(StrEnum):
    """Which entities an act is for."""

    OPEN = "open"
    DOUBTFUL = "doubtful"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Verb:
    """One act.

    Attributes:
        name: as in the command.
        words: on its button.
        done: what follows a number, as in `7 settled`.
        about: what it does.
        undo: whether and how it is undone.
        undone_by: name of the act that the page which follows offers for that.
        among: which entities it is for.
        needs_note: whether a reason is asked for.
        asks_temporal: whether a workflow is asked.
        act: for one entity, with the parts of it that were chosen.
    """

    name: str
    words: str
    done: str
    about: str
    undo: str
    among: Among
    act: Act
    needs_note: bool = False
    asks_temporal: bool = True
    undone_by: str | None = None


def resolving(receipts: Mapping[str, Any]) -> Act:
    """The act *resolve*, with the receipt of each key that has one of its own."""

    async def resolve(acts: Acts, entity: Entity, doubts: Sequence[tuple[str, int]], fields: Fields) -> str:
        outcome, shared = chosen_outcome(fields), given_json(fields, "receipt")
        if not doubts:
            raise NotNow(f"{entity}: nothing of it is in doubt any more: somebody or something was faster")
        answers = [
            await acts.resolve(entity, outcome, receipts.get(key, shared), key, attempt) for key, attempt in doubts
        ]
        return "; ".join(answers)

    return resolve


async def _retry(acts: Acts, entity: Entity, parts: Parts, fields: Fields) -> str:
    return await acts.retry(entity, send_refused="id" in fields)


async def _send_again(acts: Acts, entity: Entity, keys: Sequence[str], fields: Fields) -> str:
    return await acts.send_again(entity, *keys)


async def _cancel(acts: Acts, entity: Entity, parts: Parts, fields: Fields) -> str:
    return await acts.cancel(entity)


async def _restart(acts: Acts, entity: Entity, parts: Parts, fields: Fields) -> str:
    return await acts.restart(entity, given_json(fields, "input"))


RESOLVE = Verb(
    "resolve",
    "Settle",
    "settled",
    "Record what became of an effect in doubt. Answer only what you know from the other side, not what is likely.",
    "There is no undo: the lifecycle goes on with your answer at once.",
    Among.DOUBTFUL,
    resolving({}),
    needs_note=True,
)
VERBS: dict[str, Verb] = {
    each.name: each
    for each in (
        RESOLVE,
        Verb(
            "retry",
            "Retry now",
            "go on",
            "Let it go on at once, where it waits for its next attempt or for somebody to ask. Where its workflow was "
            "terminated, has failed or is gone, it is started again from its record.",
            "There is no undo: what is called is called.",
            Among.OPEN,
            _retry,
        ),
        Verb(
            "send-again",
            "Send again",
            "go anew",
            "Send an effect anew that ended without being done, under a new key: the other side sees a new request.",
            "There is no undo: what is sent is sent.",
            Among.OPEN,
            _send_again,
            needs_note=True,
        ),
        Verb(
            "cancel",
            "Cancel",
            "requested to end",
            "Request its end: no new attempt is begun, and what is under way or in doubt is settled first. "
            "Temporal may be away.",
            "There is no undo: a finished entity can be restarted, as a new generation with new keys.",
            Among.OPEN,
            _cancel,
            asks_temporal=False,
        ),
        Verb(
            "restart",
            "Restart",
            "restarted",
            "Run what is finished again, as a new generation with new keys: everything happens once more.",
            "Cancel ends the new generation; what it has called by then is called.",
            Among.FINISHED,
            _restart,
            needs_note=True,
            asks_temporal=False,
            undone_by="cancel",
        ),
    )
}


def verb_named(name: str) -> Verb:
    """The act.

    Raises:
        InvalidSetting: there is none of that name.
    """
    if name not in VERBS:
        raise InvalidSetting(f"no act is named {name!r}; there are: {', '.join(VERBS)}")
    return VERBS[name]


def check_fields(verb: Verb, fields: Fields) -> None:
    """Make sure that nothing is missing, before anything is done.

    Raises:
        InvalidSetting: a field is missing, or can't be used.
    """
    check_note(fields, "how you know" if verb.needs_note else None)
    given_json(fields, "receipt")
    given_json(fields, "input")
    if verb is RESOLVE:
        chosen_outcome(fields)


def check_note(fields: Fields, needed: str | None) -> None:
    """Make sure that the note of a form can be put on record.

    Args:
        needed: what it is to say, as `why`; None = it may be missing.

    Raises:
        InvalidSetting: it is missing or too long.
    """
    note = fields.get("note", "")
    if needed is not None and not note.strip():
        raise InvalidSetting(f"the note is missing: say {needed}, for the record")
    if len(note) > LONGEST_NOTE:
        raise InvalidSetting(f"the note has more than {LONGEST_NOTE:,} characters")


def previewed_at(fields: Fields) -> datetime:
    """When the preview of a form was made, by the database's clock.

    Raises:
        InvalidSetting: the form does not have that.
    """
    try:
        return datetime.fromisoformat(fields.get("as_of", "")).astimezone()
    except (ValueError, OverflowError):
        raise InvalidSetting("the form does not say when its preview was made: load it again") from None


def chosen_outcome(fields: Fields) -> EffectStatus:
    """The answer about an effect in doubt.

    Raises:
        InvalidSetting: there is none.
    """
    given = fields.get("outcome", "")
    if given not in set(ANSWERS):
        raise InvalidSetting(f"choose an answer: {', '.join(ANSWERS)}; {given!r} is none")
    return EffectStatus(given)


def given_json(fields: Fields, name: str) -> Any:
    """A field that is JSON, or nothing.

    Raises:
        InvalidSetting: it is something else.
    """
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSetting(f"the {name} is no JSON: {error}") from None
