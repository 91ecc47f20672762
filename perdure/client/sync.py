"""`SyncClient`: the verbs of an app with blocking connections."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.client import verbs
from perdure.client.connections import BlockingConnection, carry_blocking
from perdure.client.naming import Handler

if TYPE_CHECKING:  # a web app that only starts needs none of these
    from perdure._workflow.lifecycle import Lifecycle
    from perdure.app import App
    from perdure.client.naming import Which

I = TypeVar("I")  # noqa: E741


class SyncClient:
    """Starts, signals, cancels and restarts lifecycles from synchronous code, such as a Django view.

    `connection` is the app's own, with an open transaction: of psycopg 3, SQLAlchemy (also a Session) or Django. The
    call is committed, or rolled back, with the app's row. Errors of PostgreSQL are raised as exceptions of that
    library. The arguments are those of the same verbs of `Client`.

    Args:
        app: checks names and inputs of lifecycles that are given by name.

    Example:
        >>> import os, psycopg
        >>> from perdure import SyncClient
        >>> client = SyncClient()
        >>> with psycopg.connect(os.environ["PERDURE_DATABASE_URL"]) as connection:
        ...     client.start("ticket", "18", "no paper", connection=connection)
        ...     client.signal("ticket", "18", "answered", connection=connection)
        'started'
        'sent'
    """

    def __init__(self, app: App | None = None) -> None:
        self._app = app

    def start(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        given: I,
        *,
        connection: BlockingConnection,
        tenant: str | None = None,
        not_before: datetime | None = None,
        priority: int = 3,
    ) -> str:
        """Start the lifecycle of an entity. Returns `started`, `open` (it runs already) or `finished` (it has ended).

        Raises:
            InvalidEntity, InvalidInput, UnknownLifecycle, NoTransaction: as `Client.start`.
            UnknownConnection: the connection is asynchronous, of an unknown library, or a session with several
                databases.
        """
        with verbs.traced(verbs.start(self._app, lifecycle, entity_id, given, tenant, not_before, priority)) as call:
            return str(carry_blocking(connection, call))

    def signal(
        self,
        lifecycle: Which,
        entity_id: object,
        name: str | Handler,
        payload: Any = None,
        *,
        connection: BlockingConnection,
        message_id: str | None = None,
        not_before: datetime | None = None,
    ) -> str:
        """Send a signal to an open lifecycle. Returns `sent`, `known` or `finished`, as `Client.signal`."""
        asked = verbs.signal(self._app, lifecycle, entity_id, name, payload, message_id, not_before)
        return str(carry_blocking(connection, asked))

    def cancel(
        self, lifecycle: Which, entity_id: object, *, by: str, note: str = "", connection: BlockingConnection
    ) -> str:
        """Request the end of an entity. Returns as `signal`."""
        return str(carry_blocking(connection, verbs.cancel(lifecycle, entity_id, by, note)))

    def restart(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        *,
        by: str,
        note: str,
        given: I | None = None,
        connection: BlockingConnection,
    ) -> int:
        """Run a finished entity again, as a new generation with new keys; returns the generation."""
        with verbs.traced(verbs.restart(self._app, lifecycle, entity_id, by, note, given)) as call:
            return int(carry_blocking(connection, call))
