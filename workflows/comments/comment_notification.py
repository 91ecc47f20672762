"""Each comment notifies its recipient by e-mail: once, even if a process or server fails on the way.

`pending -> sending -> sent | error`, from `error` to `sending` again on request, or to `cancelled`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import ValidationError
from temporalio import workflow

from activities.comments.contracts import Comment
from activities.mail.contracts.mail import SEND_MAIL, Mail
from perdure import AppColumn, Lifecycle, state
from perdure.contracts import AppRows, Erasure


class Notice(StrEnum):
    """The states of the notification of a comment."""

    PENDING = "pending"
    SENDING = state("sending", within=timedelta(minutes=5))
    SENT = state("sent", final=True)
    ERROR = state("error", attention=True)
    CANCELLED = state("cancelled", cancelled=True)


@workflow.defn(name="comment-notification")
class CommentNotification(Lifecycle[Comment, Notice]):
    """Sends one mail for one comment."""

    effects = (SEND_MAIL,)
    mirror = AppColumn("comment", column="notification_state")
    expects = AppRows("select id, to_jsonb(c) as input from comment c where notification_state = 'pending'")
    erasure = Erasure(
        elsewhere=(
            "the row in comment: it is the app's own content",
            "the mail server's log and queue, and the mailbox of the recipient",
        )
    )

    @workflow.run
    async def run(self, comment: Comment) -> None:
        """Send the mail. If that is impossible, wait for a request to try again."""
        try:
            mail = mail_for(comment)
        except ValidationError as error:
            [problem, *_] = error.errors(include_input=False, include_url=False)  # the input is personal
            await self.enter(Notice.ERROR, why=f"no mail can be made of it: {problem['loc']}: {problem['msg']}")
            await self.wait_for(lambda: False)
            return
        await self.perform_until_done(
            SEND_MAIL, mail, entering=Notice.SENDING, then=Notice.SENT, otherwise=Notice.ERROR
        )


def mail_for(comment: Comment) -> Mail:
    """The mail about a comment."""
    return Mail(
        sender="notify@blog.example",
        recipient=comment.recipient,
        subject=f"{comment.author} commented on post {comment.post_id}",
        body=f"{comment.author} wrote:\n\n{comment.body}\n",
    )
