"""The schema of Temporal's two databases, which Temporal's own tool makes and updates."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from perdure._machine.databases import opened
from perdure._machine.temporal import ending_with_parent
from perdure._store.sql import queries
from perdure.errors import NotPermitted
from perdure.servers.temporal_on_postgres import MAIN, VISIBILITY, ServerDatabase, schema_commands, tool_environment
from perdure.servers.temporal_programs import Programs

query = queries(__name__)


async def make_schemas(programs: Programs, database: ServerDatabase) -> None:
    """Bring the schema of both databases to that of the programs; a newer one stays.

    Raises:
        NotPermitted: an extension is missing, or the tool failed; the message has its reason.
    """
    for name in (MAIN, VISIBILITY):
        connection = await opened(database, name)
        try:
            await _make_schema(programs, database, name, connection)
        finally:
            await connection.close()


async def _make_schema(
    programs: Programs, database: ServerDatabase, name: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    found = await connection.fetchrow(query("temporal_schema"))
    assert found is not None
    if found["anew"] and not found["btree_gin"]:
        raise NotPermitted(
            f"PostgreSQL at {database.host}:{database.port} has no extension btree_gin, which Temporal's schema "
            "needs: install PostgreSQL's contrib package (Debian: postgresql-contrib, part of postgresql)"
        )
    environment = tool_environment(database, name)
    try:
        await asyncio.to_thread(_run, schema_commands(programs, name, anew=found["anew"]), environment)
    except NotPermitted:
        if found["used"]:
            raise
        # The tool cannot continue each schema that it has left unfinished, as when it was killed. No server has used
        # this one, so nothing is lost if it is made from its beginning.
        async with connection.transaction():
            for row in await connection.fetch(query("unfinished_schema")):
                await connection.execute(row["statement"])
        await asyncio.to_thread(_run, schema_commands(programs, name, anew=True), environment)


def _run(commands: Sequence[list[str]], environment: dict[str, str]) -> None:
    """Run the tool in a session of its own: Ctrl-C would end it in the middle of a schema."""
    for command in commands:
        done = subprocess.run(
            ending_with_parent(command),
            env=environment,
            start_new_session=True,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            why = _reason(done.stdout + done.stderr)
            raise NotPermitted(f"{Path(command[0]).name} {command[1]} of {environment['SQL_DATABASE']}: {why}")


def _reason(output: str) -> str:
    """The last error that the tool has logged, else its last line."""
    found = re.findall(r'"error": ("(?:[^"\\]|\\.)*")', output)
    return str(json.loads(found[-1])) if found else output.strip().rpartition("\n")[2]
