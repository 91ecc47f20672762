"""The comment notification in DBOS, the same row and the same mail: marks, sends, marks.

`python -m bench.cost.with_dbos TASK_QUEUE` is the worker of its queue; without a queue, the app's process runs it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, SetWorkflowID, SQLAlchemyDatasource

from bench.cost.letters import hand_over_blocking
from bench.cost.starter import COMMENT, INSERT, RowStarter, Starter, new_pool

URL = os.environ["PERDURE_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:")
CONCURRENCY = 100
engine = sa.create_engine(URL, pool_size=20, max_overflow=0)
datasource = SQLAlchemyDatasource.create(URL, engine=engine)
_MARK = sa.text("update comment set notification_state = :state where id = :id")
_ROW = sa.text(
    "insert into comment (post_id, author, body, recipient) values (:post_id, :author, :body, :recipient) returning id"
)


@datasource.transaction(isolation_level="READ COMMITTED")
def mark(comment_id: int, state: str) -> None:
    """Write the state of the row. DBOS commits its checkpoint in the same transaction."""
    datasource.sql_session().execute(_MARK, {"state": state, "id": comment_id})


@DBOS.step()
def send_mail(comment_id: int) -> str:
    """Hand the mail over."""
    author, body = COMMENT["author"], COMMENT["body"]
    subject, text = f"{author} commented on post {COMMENT['post_id']}", f"{author} wrote:\n\n{body}\n"
    message_id = f"comment-{comment_id}@blog.example"
    return hand_over_blocking("notify@blog.example", str(COMMENT["recipient"]), subject, text, message_id)


@DBOS.workflow(name="notification")
def notification(comment_id: int) -> None:
    """One after the other; DBOS goes on behind the last checkpoint."""
    mark(comment_id, "sending")
    send_mail(comment_id)
    mark(comment_id, "sent")


class InProcess(RowStarter):
    """A row, then a start in the same process."""

    async def start(self) -> int:
        """See base class."""
        key = int(await self.pool.fetchval(INSERT, *COMMENT.values()))
        await asyncio.to_thread(self._run, key)
        self.ids.append(f"comment-{key}")
        return key

    def _run(self, key: int) -> None:
        with SetWorkflowID(f"comment-{key}"):
            DBOS.start_workflow(notification, key)


class ByQueue(RowStarter):
    """A row and its place in the queue in one transaction."""

    client: DBOSClient

    async def start(self) -> int:
        """See base class."""
        key = await asyncio.to_thread(self._enqueue)
        self.ids.append(f"comment-{key}")
        return key

    def _enqueue(self) -> int:
        with engine.begin() as connection:
            key = int(connection.execute(_ROW, COMMENT).scalar_one())
            options = {"queue_name": "comments", "workflow_name": "notification", "workflow_id": f"comment-{key}"}
            self.client.enqueue_in_transaction(connection, options, key)
        return key


@asynccontextmanager
async def in_process(task_queue: str) -> AsyncIterator[Starter]:
    """The app, which is the worker too."""
    await asyncio.to_thread(_launch)
    async with new_pool() as pool:
        yield InProcess(pool)
    # The row shows the end before DBOS has noted it.
    await asyncio.to_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=10))


@asynccontextmanager
async def by_queue(task_queue: str) -> AsyncIterator[Starter]:
    """The app beside the worker of the queue."""
    async with new_pool() as pool:
        starter = ByQueue(pool)
        starter.client = await asyncio.to_thread(lambda: DBOSClient(system_database_engine=engine))
        yield starter


def _launch() -> None:
    DBOS(config={"name": "comments", "system_database_url": URL, "log_level": "WARNING"})
    DBOS.launch()


def main() -> None:
    """The worker, until the process is stopped."""
    _launch()
    DBOS.register_queue("comments", worker_concurrency=CONCURRENCY)
    print("worker: running", file=sys.stderr, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
