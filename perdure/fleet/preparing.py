"""What every process of the fleet makes sure of before it begins, on a connection of its own."""

from __future__ import annotations

from perdure import schema
from perdure.schema import Connection
from perdure.schema.rights import check_worker
from perdure.store.connecting import report_weaknesses


async def prepare(connection: Connection) -> None:
    """Check role, schema and server, make the months to come, and note for the feed which database this is.

    Raises:
        PerdureError: the role lacks a right, or the schema is missing, older or too new; the message says what to do.
    """
    await check_worker(connection)
    await schema.check(connection)
    await report_weaknesses(connection)
    await schema.make_months(connection)
    await schema.note_database(connection)
