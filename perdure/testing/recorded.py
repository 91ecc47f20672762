"""A store that also remembers what became of each attempt; around the rehearsal's own, or a real one in a test."""

from __future__ import annotations

from perdure._wire.writes import Answer, Fence, FenceOp, Store, Verdict, Write
from perdure.contracts.outcomes import EffectStatus


class Recorded:
    """Hands every write on to `store`, and watches the answers.

    Attributes:
        outcomes: for each effect's key, in the order in which they were begun: what became of each attempt.
            `in_doubt` is an attempt of which nobody learned how it ended.
        writes: how many writes there were.
    """

    def __init__(self, store: Store) -> None:
        self.writes: int = 0
        self._store = store
        self._attempts: dict[str, dict[str, EffectStatus]] = {}

    @property
    def outcomes(self) -> dict[str, list[EffectStatus]]:
        """See the class."""
        return {key: list(attempts.values()) for key, attempts in self._attempts.items()}

    async def write(self, write: Write, *, patience: float) -> Answer:
        """See `Store`."""
        self.writes += 1
        answer = await self._store.write(write, patience=patience)
        if write.fence is not None:
            self._watch(write.fence, answer)
        return answer

    def _watch(self, fence: Fence, answer: Answer) -> None:
        if fence.op is FenceOp.BEGIN and answer.verdict in (Verdict.FRESH, Verdict.MINE):
            self._attempts.setdefault(fence.key, {}).setdefault(fence.token, EffectStatus.IN_DOUBT)
        elif fence.status is not None and (answer.verdict is Verdict.STORED or _stands(fence, answer)):
            attempts = self._attempts[fence.key]
            attempts[fence.token if fence.token in attempts else list(attempts)[-1]] = fence.status


def _stands(fence: Fence, answer: Answer) -> bool:
    """Whether the outcome was on record before: the answer to an earlier write of it was lost."""
    return fence.status is EffectStatus.DONE and answer.effect is not None and answer.effect.status is fence.status
