"""Every crash point of a mailing that is exactly once: whatever dies or breaks at whatever place, one mail is piped."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.mail.contracts.sendmail import Kind
from perdure._store.schema import Connection
from perdure.contracts.keys import Key
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.testing.crashing import Servers
from tests.applications.mail.mailings import TABLE, letter
from tests.mail_secret import token_of
from workflows.mail.mailing import Mailing

SENDMAIL = """\
#!/bin/sh
cd {folder}
id=$(sed -n 's/^Message-ID: //p')
echo "$id" >> sent
now=$(date -u +%Y-%m-%dT%H:%M:%S+00:00) name=$(printf 'F%09d' $$)
mx="$now mx postfix" from=news@inbox.example
printf '%s\\n' "$mx/pickup[1]: $name: uid=0 from=<$from>" "$mx/cleanup[1]: $name: message-id=$id" >> mail.log
"""


@pytest.fixture
async def perdure_servers(postgres: PostgresServer, temporal: TemporalServer, database: str) -> Servers:
    """With the table of mails in the database that is copied."""
    connection = await asyncpg.connect(postgres.dsn(database))
    await connection.execute(TABLE)
    await connection.close()
    return Servers(postgres.dsn(database), temporal.address)


def mail_system(folder: Path) -> dict[str, str]:
    """A `sendmail` that counts each Message-ID and writes the log that Postfix would; an empty queue."""
    for name, script in (("sendmail", SENDMAIL.format(folder=shlex.quote(str(folder)))), ("postqueue", "#!/bin/sh\n")):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    (folder / "mail.log").write_text("2026-01-01T00:00:00+00:00 mx postfix/master[1]: daemon started\n")
    (folder / "sent").touch()
    return {
        "PERDURE_MAIL_SENDMAIL": f"{folder}/sendmail -i -t",
        "PERDURE_MAIL_POSTQUEUE": f"{folder}/postqueue -j",
        "PERDURE_MAIL_LOG": f"{folder}/mail.log",
        "PERDURE_MAIL_TIMEOUT": "2",
        "PERDURE_MAIL_VISIBILITY_DELAY": "0.5",
    }


async def test_whatever_dies_one_mail_is_piped(crash_points: Callable[..., Any], tmp_path: Path) -> None:
    async def with_its_row(connection: Connection, entity_id: str) -> None:
        await connection.execute(
            "insert into mailing (id, sender, recipient, subject, body) overriding system value "
            "values ($1, 'news@inbox.example', 'jo@inbox.example', 'News', 'Hello')",
            int(entity_id),
        )

    proof = await crash_points(
        Mailing,
        letter(Kind.EXACTLY_ONCE, "jo@inbox.example"),
        app="workers.mail.app:app",
        happened=lambda key: (tmp_path / "sent").read_text().count(f"<{token_of(Key(key))}@"),
        commit=with_its_row,
        environment=await asyncio.to_thread(mail_system, tmp_path),
        only=lambda place: "sendmail" in place,  # what comes before and after is the same for every lifecycle
        at_once=9,
    )
    print(proof.summary())

    assert proof.undisturbed.final == "processed"
    assert proof.undisturbed.counts == {"sendmail": 1}
    assert {f"{border} the call of sendmail" for border in ("before", "after")} <= set(proof.places)
    assert all(case.hit for case in proof.cases)
