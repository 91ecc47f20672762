"""The application's comment notification twice: with the effect as an activity, and inline. Same shape, same models."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from activities.comments.contracts import Comment
from activities.mail.contracts.mail import Mail
from perdure import AppColumn, Done, Lifecycle, NotPerformed, state

with workflow.unsafe.imports_passed_through():  # contracts are; these are made by a function of another module
    from bench.cost.contracts import SEND, SEND_INLINE


class Notice(StrEnum):
    """Where the notification of a comment is."""

    PENDING = "pending"
    SENDING = state("sending", within=timedelta(minutes=5))
    SENT = state("sent", final=True)
    ERROR = state("error", attention=True)


@workflow.defn(name="by-activity")
class ByActivity(Lifecycle[Comment, Notice]):
    """Its effect is an activity."""

    effects = (SEND,)
    mirror = AppColumn("comment", column="notification_state")

    @workflow.run
    async def run(self, comment: Comment) -> None:
        """Send until it is sent."""
        while True:
            match await self.perform(SEND, mail_for(comment), entering=Notice.SENDING, then=Notice.SENT):
                case Done():
                    return
                case NotPerformed(why):
                    await self.enter(Notice.ERROR, why=why)
                    await self.retry_requested()


@workflow.defn(name="inline")
class Inline(Lifecycle[Comment, Notice]):
    """Its effect is inline."""

    effects = (SEND_INLINE,)
    mirror = AppColumn("comment", column="notification_state")

    @workflow.run
    async def run(self, comment: Comment) -> None:
        """Send until it is sent."""
        while True:
            match await self.perform(SEND_INLINE, mail_for(comment), entering=Notice.SENDING, then=Notice.SENT):
                case Done():
                    return
                case NotPerformed(why):
                    await self.enter(Notice.ERROR, why=why)
                    await self.retry_requested()


def mail_for(comment: Comment) -> Mail:
    """The mail about a comment."""
    return Mail(
        sender="notify@blog.example",
        recipient=comment.recipient,
        subject=f"{comment.author} commented on post {comment.post_id}",
        body=f"{comment.author} wrote:\n\n{comment.body}\n",
    )
