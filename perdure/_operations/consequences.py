"""What would follow from each answer about an effect in doubt, in words: a pure function of what is declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.app import App
from perdure.contracts.dumping import load
from perdure.contracts.effects import Effect, first_problem
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import AskFirst, Dedupe

ANSWERS = (EffectStatus.DONE, EffectStatus.NOT_DONE, EffectStatus.ABANDONED)


def follows(
    app: App | None, lifecycle: str, state: str, effect: str, *, ended: bool, attempts: int | None = None
) -> dict[EffectStatus, str]:
    """What each answer would do next.

    Args:
        effect: its name, with or without the suffix.
        ended: the entity has ended with the doubt open.
        attempts: that were made; None = of several entities.
    """
    if ended:
        nothing = f"only the record changes: the entity has ended as {state}, and nothing is called"
        return dict.fromkeys(ANSWERS, nothing)
    leads = leads_to(app, lifecycle, state)
    contract = app.contract(effect.partition("/")[0]) if app else None
    again = "the call is made again, with the same key"
    if isinstance(contract, Effect):
        if not isinstance(contract.doubt, Dedupe):
            again += "; if it had happened after all, it happens a second time"
        receipt = ", with the receipt that you give" if takes_receipt(app, effect) else ""
        most = contract.retry.maximum_attempts
        if most is not None and attempts is not None and attempts >= most:
            again = f"it was attempted as often as declared ({most}), so it ends as given up; {leads}"
        elif most is not None:
            again += f", unless it has failed as often as declared ({most})"
    else:
        receipt = ", with the receipt that you give, if it has one"
    return {
        EffectStatus.DONE: f"nothing is called again, and the lifecycle goes on as after a success{receipt}; {leads}",
        EffectStatus.NOT_DONE: again,
        EffectStatus.ABANDONED: (
            f"nothing is called again: the effect ends as abandoned, and the lifecycle decides what follows; {leads}"
        ),
    }


def leads_to(app: App | None, lifecycle: str, state: str) -> str:
    """Which states may follow."""
    declared = app.lifecycles[lifecycle].declared if app and lifecycle in app.lifecycles else None
    if declared is None or declared.today(state) not in declared:
        return f"from {state} it goes where its code leads"
    names = [str(each.value) for each in declared.followers(declared.today(state)) if each != declared.cancelled]
    return f"from {state} it may go to {_listed(names)}" if names else f"from {state} no other state follows"


def takes_receipt(app: App | None, effect: str) -> bool:
    """Whether an answer *done* needs a receipt; where nothing is declared, it may."""
    contract = app.contract(effect.partition("/")[0]) if app else None
    if not isinstance(contract, Effect):
        return True
    try:
        contract.receipt.validate_python(None)
    except ValueError:
        return True
    return False


def is_looked_up(app: App | None, effect: str) -> bool:
    """Whether its doubt policy may ask a look-up; where nothing is declared, it may."""
    contract = app.contract(effect.partition("/")[0]) if app else None
    policy = contract.doubt if isinstance(contract, Effect) else None
    while isinstance(policy, Dedupe):
        policy = policy.otherwise
    return policy is None or isinstance(policy, AskFirst)


def receipt_problem(app: App | None, effect: str, receipt: Any) -> str | None:
    """Why a receipt does not fit what the effect declares; None where it fits, or nothing is declared."""
    contract = app.contract(effect.partition("/")[0]) if app else None
    if isinstance(contract, Effect):
        try:
            load(contract.receipt, receipt)
        except ValueError as error:
            return f"the receipt does not fit what {effect} declares: {first_problem(error)}"
    return None


def receipt_fields(app: App | None, effect: str) -> str:
    """The fields of the receipt that the effect declares, as `id: string, amount: integer`; empty where it has none."""
    contract = app.contract(effect.partition("/")[0]) if app else None
    if not isinstance(contract, Effect):
        return ""
    fields = contract.receipt.json_schema().get("properties", {})
    return ", ".join(f"{name}: {each['type']}" if "type" in each else name for name, each in fields.items())


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
