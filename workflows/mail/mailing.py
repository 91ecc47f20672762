"""Each row of `mailing` is one mail, piped to `sendmail`: at least once, or exactly once, by its kind.

`queued -> processing -> processed | failed`, from `failed` to `processing` again on request, or to `cancelled`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import ValidationError
from temporalio import workflow

from activities.mail.contracts.sendmail import SENDMAIL, Kind, Letter
from perdure import AppColumn, Lifecycle, Repeat, state
from perdure.contracts import AppRows, Erasure


class Post(StrEnum):
    """The states of a mail."""

    QUEUED = "queued"
    PROCESSING = state("processing", within=timedelta(minutes=5))
    PROCESSED = state("processed", final=True)
    FAILED = state("failed", attention=True)
    CANCELLED = state("cancelled", cancelled=True)


@workflow.defn(name="mailing")
class Mailing(Lifecycle[Letter, Post]):
    """Passes one mail to `sendmail`."""

    effects = (SENDMAIL,)
    mirror = AppColumn("mailing", column="state")
    expects = AppRows("select id, to_jsonb(m) as input from mailing m where state = 'queued'")
    erasure = Erasure(
        elsewhere=(
            "the row in mailing: it is the app's own content",
            "the mail server's log and queue, and the mailbox of the recipient",
        )
    )

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """Pass the mail to `sendmail`. If it is refused, wait for a request to try again."""
        try:
            mail = letter.mail()
        except ValidationError as error:
            [problem, *_] = error.errors(include_input=False, include_url=False)  # the input is personal
            where = ".".join(map(str, problem["loc"][:1]))
            await self.enter(Post.FAILED, why=f"no mail can be made of it: {where}: {problem['msg']}")
            await self.wait_for(lambda: False)
            return
        doubt = Repeat() if letter.kind is Kind.AT_LEAST_ONCE else None  # None: look-up, then a person
        await self.perform_until_done(
            SENDMAIL, mail, entering=Post.PROCESSING, then=Post.PROCESSED, otherwise=Post.FAILED, doubt=doubt
        )
