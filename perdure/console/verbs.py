"""The acts that the console offers, in the words of its pages. `perdure._operations.acts` carries them out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from perdure._operations.acts import Acts
from perdure._operations.consequences import ANSWERS
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import InvalidSetting, NotNow

Fields = Mapping[str, str]
LONGEST_NOTE = 2000
"""Characters of a reason."""
Part = Any
"""The part of an entity that an act is for: an effect in doubt, the key of one to be sent again, or the number of a
rejected row; None = all of it."""
Act = Callable[[Acts, Entity, Part, Fields], Awaitable[str]]


class InDoubt(NamedTuple):
    """An effect in doubt that an answer is about.

    Attributes:
        attempt: the number of the last attempt.
        effect: its name, with its suffix.
    """

    key: str
    attempt: int
    effect: str


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
        act: for one entity, or a part of it.
        recorded: whether the reason of a record shows that it was done, for such a part and form.
    """

    name: str
    words: str
    done: str
    about: str
    undo: str
    among: Among
    act: Act
    recorded: Callable[[str, Part, Fields], bool]
    needs_note: bool = False
    asks_temporal: bool = True
    undone_by: str | None = None


def resolving(receipts: Mapping[str, Any]) -> Act:
    """The act *resolve*, with the receipt of each key that has one of its own."""

    async def resolve(acts: Acts, entity: Entity, doubt: InDoubt | None, fields: Fields) -> str:
        outcome, shared = chosen_outcome(fields), given_json(fields, "receipt")
        if doubt is None:
            raise NotNow(f"{entity}: nothing of it is in doubt any more: somebody or something was faster")
        receipt = receipts.get(doubt.key, shared)
        return await acts.resolve(entity, outcome, receipt, doubt.key, doubt.attempt)

    return resolve


async def _retry(acts: Acts, entity: Entity, part: Part, fields: Fields) -> str:
    return await acts.retry(entity, send_refused="id" in fields)


async def _send_again(acts: Acts, entity: Entity, key: str | None, fields: Fields) -> str:
    return await acts.send_again(entity, key)


async def _cancel(acts: Acts, entity: Entity, part: Part, fields: Fields) -> str:
    return await acts.cancel(entity)


async def _restart(acts: Acts, entity: Entity, part: Part, fields: Fields) -> str:
    return await acts.restart(entity, given_json(fields, "input"))


def _was_resolved(why: str, doubt: InDoubt | None, fields: Fields) -> bool:
    return doubt is not None and why.startswith(f"{doubt.effect} resolved as {chosen_outcome(fields)}")


def _begins(words: str) -> Callable[[str, Part, Fields], bool]:
    return lambda why, part, fields: why.startswith(words)


def _was_restarted(why: str, part: Part, fields: Fields) -> bool:
    return why == fields.get("note", "")


RESOLVE = Verb(
    "resolve",
    "Settle",
    "settled",
    "Record what became of an effect in doubt. Answer only what you know from the other side, not what is likely.",
    "There is no undo: the lifecycle goes on with your answer at once.",
    Among.DOUBTFUL,
    resolving({}),
    _was_resolved,
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
            _begins("retry"),
        ),
        Verb(
            "send-again",
            "Send again",
            "go anew",
            "Send an effect anew that ended without being done, under a new key: the other side sees a new request.",
            "There is no undo: what is sent is sent.",
            Among.OPEN,
            _send_again,
            _begins("send-again"),
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
            _begins("cancel requested"),
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
            _was_restarted,
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
