"""Performs effects in an ordinary Temporal workflow, which is no lifecycle and needs no PostgreSQL.

`perform` makes the attempts of an effect, each once, with one idempotency key. An attempt without an answer is in
doubt, and the effect's doubt policy settles it. `EffectsPlugin` adds their activities to the worker.

Temporal's history is the only record. So a second execution of the same workflow id has other keys, nobody can list the
effects in doubt, and an effect whose policy needs a person raises `EffectInDoubt`. `perdure.Lifecycle` does all that.

Example:
    >>> from datetime import timedelta
    >>> from perdure import Attempt, Dedupe, effect
    >>> @effect(timeout=timedelta(seconds=10), doubt=Dedupe(window=timedelta(hours=24)))
    ... async def charge(cents: int, attempt: Attempt) -> str:
    ...     return "receipt of " + attempt.key.token
    >>> len(EffectsPlugin(charge).activities)
    1
"""

from perdure.temporal.hosting import EffectsPlugin
from perdure.temporal.performing import EffectInDoubt, EffectNotPerformed, perform

__all__ = ["EffectInDoubt", "EffectNotPerformed", "EffectsPlugin", "perform"]
