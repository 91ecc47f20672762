"""The acts that the record of an entity rules out, with the reason, so that no person is offered what would be refused.

An act that the record allows may still be refused: the record is not all of the workflow's state, and may be old.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure._operations.undone import undone
from perdure._store.parked import is_about_doubt
from perdure.app import App
from perdure.client.reading import waiting_for_person
from perdure.client.records import EntityStatus
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.states import STARTING


def refusal(act: str, standing: EntityStatus, app: App | None, *, is_gone: bool = False) -> str | None:
    """Why an act can't be done; None = the record does not rule it out.

    Args:
        act: the name of the command: `resolve`, `retry`, `send-again`, `cancel` or `restart`.
        is_gone: Temporal has no open workflow of it.
    """
    if act in ("retry", "send-again", "cancel") and standing.final:
        return f"too late: already {standing.state}"
    return _RULES[act](standing, app, is_gone)


def _resolve(standing: EntityStatus, app: App | None, is_gone: bool) -> str | None:
    unknown = [each for each in standing.effects if each.status.unknown]
    if not unknown:
        return f"too late: already {standing.state}" if standing.final else "nothing of it is in doubt"
    if standing.final:
        return None
    if not waiting_for_person(standing):
        return f"the doubt policy of {unknown[0].effect} is at work: no person is asked yet"
    return _gone(is_gone)


def _retry(standing: EntityStatus, app: App | None, is_gone: bool) -> str | None:
    if why := _undelivered(standing):
        return why
    if is_gone:
        return None
    statuses = {each.status for each in standing.effects}
    parked = [each.effect for each in standing.effects if each.status is EffectStatus.IN_DOUBT]
    if undone(standing.effects):
        return None
    if parked:
        settle = f"{parked[0]} is in doubt: nobody knows whether it happened, so settle it"
        return settle if is_about_doubt(standing.attention) else None
    if standing.attention is None:
        at_work = EffectStatus.ATTEMPTING in statuses
        return "an attempt is under way" if at_work else f"nothing waits for a retry in state {standing.state}"
    return None


def _send_again(standing: EntityStatus, app: App | None, is_gone: bool) -> str | None:
    if why := _undelivered(standing) or _gone(is_gone):
        return why
    statuses = {each.status for each in undone(standing.effects)}
    if statuses.intersection((EffectStatus.REFUSED, EffectStatus.ABANDONED)):
        return None
    if EffectStatus.NOT_DONE in statuses:
        return None if standing.attention else "its next attempt comes by itself: nothing waits to be sent again"
    return "no effect has ended without being done"


def _cancel(standing: EntityStatus, app: App | None, is_gone: bool) -> str | None:
    declared = app.lifecycles.get(standing.lifecycle) if app else None
    if declared is not None and declared.declared.cancelled is None:
        return f"{standing.lifecycle} declares no state with cancelled=True to end in"
    return None


def _restart(standing: EntityStatus, app: App | None, is_gone: bool) -> str | None:
    if not standing.final:
        return "it is still open: only what is finished can be restarted"
    unknown = [each.key for each in standing.effects if each.status.unknown]
    return f"whether {unknown[0]} happened is not known: settle it first" if unknown else None


def _undelivered(standing: EntityStatus) -> str | None:
    if standing.waits_for_delivery:
        return "its start waits to be delivered to Temporal"
    if standing.state == STARTING and standing.rejected:
        return "its start was rejected: deliver that again, or drop it"
    return None


def _gone(is_gone: bool) -> str | None:
    return "no workflow of it is open in Temporal: retry it first" if is_gone else None


_RULES: dict[str, Callable[[EntityStatus, App | None, bool], str | None]] = {
    "resolve": _resolve,
    "retry": _retry,
    "send-again": _send_again,
    "cancel": _cancel,
    "restart": _restart,
}
