"""The comment notification as Temporal's samples teach it: three regular activities, a default worker, a plain client.

`python -m bench.cost.sample TASK_QUEUE` is its worker.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    import asyncpg
    from temporalio.client import Client
    from temporalio.worker import Worker

    from bench.cost.letters import hand_over


@dataclass
class CommentInput:
    """What the workflow is given."""

    id: int
    post_id: int
    author: str
    body: str
    recipient: str


class Notifications:
    """The activities, with the app's database."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._pool = pool

    @activity.defn
    async def mark_sending(self, comment_id: int) -> None:
        """The app's row shows that it is being sent."""
        await self._mark(comment_id, "sending")

    @activity.defn
    async def send_mail(self, comment: CommentInput) -> str:
        """Hand the mail over."""
        subject = f"{comment.author} commented on post {comment.post_id}"
        body = f"{comment.author} wrote:\n\n{comment.body}\n"
        message_id = f"comment-{comment.id}@blog.example"
        return await hand_over("notify@blog.example", comment.recipient, subject, body, message_id)

    @activity.defn
    async def mark_sent(self, comment_id: int) -> None:
        """The app's row shows that it was sent."""
        await self._mark(comment_id, "sent")

    async def _mark(self, comment_id: int, state: str) -> None:
        await self._pool.execute("update comment set notification_state = $2 where id = $1", comment_id, state)


@workflow.defn
class SampleNotification:
    """Marks, sends, marks."""

    @workflow.run
    async def run(self, comment: CommentInput) -> None:
        """One after the other; Temporal repeats what fails."""
        limit = timedelta(seconds=10)
        await workflow.execute_activity_method(Notifications.mark_sending, comment.id, start_to_close_timeout=limit)
        await workflow.execute_activity_method(Notifications.send_mail, comment, start_to_close_timeout=limit)
        await workflow.execute_activity_method(Notifications.mark_sent, comment.id, start_to_close_timeout=limit)


async def main(task_queue: str) -> None:
    """The worker, until the process is stopped."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with asyncpg.create_pool(os.environ["PERDURE_DATABASE_URL"], min_size=1, max_size=5) as pool:
        notifications = Notifications(pool)
        worker = Worker(
            client,
            task_queue=task_queue,
            workflows=[SampleNotification],
            activities=[notifications.mark_sending, notifications.send_mail, notifications.mark_sent],
        )
        print("worker: running", file=sys.stderr, flush=True)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
