"""How a performance ends without a receipt: which `NotPerformed` follows from the decision and the known facts."""

from __future__ import annotations

from perdure._wire.carried import HowNotPerformed
from perdure._wire.known import Known
from perdure._workflow.decision import Settled
from perdure.contracts.attempt import USELESS
from perdure.contracts.outcomes import (
    Abandoned,
    DifferentInput,
    EffectStatus,
    Expired,
    GaveUp,
    NotPerformed,
    WasRefused,
)

_KINDS: dict[str, type[NotPerformed]] = {
    kind.__name__: kind for kind in (WasRefused, Expired, Abandoned, GaveUp, DifferentInput)
}


def not_performed(settled: Settled, known: Known) -> NotPerformed:
    """The end of an effect that is settled and not done."""
    view = known.effect
    doubt = view.in_doubt
    if settled.expired:
        return Expired(USELESS + (", and in doubt" if doubt else ""), doubt)
    if settled.gave_up:
        return GaveUp(f"{known.failures - known.spared} attempts failed, the last: {view.why}", doubt)
    if settled.different:
        return DifferentInput("an earlier attempt under this key had another input", doubt)
    if settled.status is EffectStatus.ABANDONED:
        return Abandoned(view.why or "abandoned")
    return WasRefused(view.why or "refused", doubt)


def same_again(how: HowNotPerformed) -> NotPerformed:
    """The end of an effect in an earlier run, for a run that repeats it."""
    return _KINDS[how.kind](how.why, how.in_doubt)
