"""What the tests of mailings stand on: rows committed with their starts, workers that are forked and killed, mails."""

from __future__ import annotations

import asyncio
import multiprocessing
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from activities.mail.contracts.sendmail import Kind, Letter
from infra.postfix import Postfix
from perdure._store.schema import Connection
from perdure.contracts.keys import Entity, Key
from perdure.testing.crashing.case import exited, preload
from perdure.testing.crashing.victim import Orders, work
from tests.mail_secret import token_of
from tests.world import World
from workflows.mail.mailing import Mailing

TABLE = (Path(__file__).parents[3] / "infra" / "mailings.sql").read_text()
_FORK = multiprocessing.get_context("forkserver")
_INSERT = "insert into mailing (kind, sender, recipient, subject, body) values ($1, $2, $3, $4, $5) returning id"


class Workers:
    """Worker processes of one world, with these settings; each is there in a few tenths of a second."""

    def __init__(self, world: World, line: int) -> None:
        self._world = world
        self._line = line
        self._processes: list[Any] = []

    async def start(self, **environment: str) -> Any:
        """Start one, and wait until it runs."""
        log = self._world.folder / f"mailings-{len(self._processes)}.log"
        orders = Orders("workers.mail.app:app", self._world.environment() | environment, str(log), self._line)
        worker = _FORK.Process(target=work, args=(orders,), daemon=True)
        worker.start()
        self._processes.append(worker)

        def runs() -> bool:
            assert worker.exitcode is None, log.read_text()
            return log.exists() and "perdure.worker: running" in log.read_text()

        await self._world.until(runs, f"worker runs, see {log}")
        return worker

    async def kill(self, worker: Any) -> None:
        """SIGKILL, and wait until it is gone."""
        worker.kill()
        await exited(worker)

    @classmethod
    @asynccontextmanager
    async def of(cls, world: World) -> AsyncIterator[Workers]:
        """For the time of a test."""

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass  # it was killed: that is what this is about
            finally:
                writer.close()

        await preload()
        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        workers = cls(world, server.sockets[0].getsockname()[1])
        try:
            yield workers
        finally:
            for each in workers._processes:
                await workers.kill(each)
            server.close()


async def commit(world: World, letters: Iterable[Letter]) -> dict[int, Letter]:
    """Insert a row for each, with its start, in one transaction; their ids."""
    rows: dict[int, Letter] = {}
    async with world.db.transaction():
        for letter in letters:
            rows[await insert(world.db, letter)] = letter
        for number, letter in rows.items():
            await world.client.start(Mailing, number, letter, connection=world.db)
    return rows


async def insert(connection: Connection, letter: Letter) -> int:
    """A row of the app's; its id."""
    given = (letter.kind.value, letter.sender, letter.recipient, letter.subject, letter.body)
    return int(await connection.fetchval(_INSERT, *given))


def letter(kind: Kind, recipient: str, body: str = "Hello\n") -> Letter:
    """A mail from `news@inbox.example`."""
    return Letter(kind=kind, sender="news@inbox.example", recipient=recipient, subject="News", body=body)


def message_id(number: int) -> str:
    """Of the mail that the row with this id became."""
    return f"<{token_of(Key.of(Entity('mailing', str(number)), 'sendmail'))}@inbox.example>"


def send(postfix: Postfix, sender: str, recipient: str, headers: dict[str, str], body: str = "Hello\n") -> None:
    """Hand a mail over as any user of the machine can."""
    program = postfix.environment["PERDURE_MAIL_SENDMAIL"].split()[0]
    content = "".join(f"{name}: {value}\n" for name, value in headers.items()) + "\n" + body
    config = str(Path(postfix.environment["MAIL_CONFIG"]))
    subprocess.run([program, "-C", config, "-i", "-f", sender, recipient], input=content.encode(), check=True)
