"""The embedded mail server: keeps mail in a maildir, logs as Postfix does, and fails as ordered.

`async with MailServer(maildir, log) as server` in a test; `python -m infra.mail.server --help` as a process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from infra.mail.faults import At, Fault, Orders
from infra.mail.session import MailSession
from infra.mail.store import MailStore, count_by_message_id, replies_held

__all__ = ["At", "Fault", "MailServer", "count_by_message_id", "replies_held"]


class MailServer:
    """An SMTP server on 127.0.0.1, in the running event loop.

    Args:
        maildir: where mail is kept; made if need be.
        log: where to log; continued if it exists.
        port: where to listen; 0 takes a free one, see `port` after the start.
        tls: offers STARTTLS with it.
        users: passwords by name. Offers AUTH and, with `tls`, insists on it.
        smtputf8: whether it takes non-ASCII addresses.
    """

    def __init__(
        self,
        maildir: Path,
        log: Path,
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        smtputf8: bool = True,
    ) -> None:
        self.maildir, self.log, self.port = maildir, log, port
        self.orders = Orders()
        self._users = {} if users is None else dict(users)
        self._options: dict[str, Any] = {
            "hostname": "localhost",
            "ident": "ESMTP perdure",
            "enable_SMTPUTF8": smtputf8,
            "tls_context": tls,
            "auth_require_tls": tls is not None or users is None,
            "auth_required": tls is not None and users is not None,
            "authenticator": self._knows,
        }
        self._numbers = itertools.count(1)
        self._sessions: set[MailSession] = set()
        self._server: asyncio.Server | None = None
        self.store: MailStore | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: if the port is taken or a directory can't be made.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self._session(loop), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.store = MailStore(self.maildir, self.log)

    async def stop(self) -> None:
        """Hang up on everybody and stop listening. What was accepted is kept."""
        if self._server is None or self.store is None:
            return
        self._server.close()
        sessions = list(self._sessions)
        for session in sessions:
            session.hang_up()
        await asyncio.gather(*(session.over.wait() for session in sessions))
        await self._server.wait_closed()
        self.store.close()
        self._server = self.store = None

    async def __aenter__(self) -> MailServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def order(self, at: At, fault: Fault, *, times: int | None = None) -> None:
        """Let `fault` happen at `at`, `times` times (None = always)."""
        self.orders.order(at, fault, times=times)

    def _session(self, loop: asyncio.AbstractEventLoop) -> MailSession:
        assert self.store is not None
        # A process of Postfix serves one session at a time: so does a number here.
        name = f"smtpd[{next(self._numbers)}]"
        session = MailSession(
            self.orders,
            self.store,
            name,
            self._sessions.discard,
            loop=loop,
            **self._options,
        )
        self._sessions.add(session)
        return session

    def _knows(self, smtp: SMTP, session: Session, envelope: Envelope, mechanism: str, login: Any) -> AuthResult:
        if not isinstance(login, LoginPassword):
            return AuthResult(success=False, handled=False)
        known = self._users.get(login.login.decode()) == login.password.decode()
        return AuthResult(success=known, handled=False, auth_data=login)


async def _serve(arguments: argparse.Namespace) -> None:
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    server = MailServer(arguments.maildir, arguments.log, arguments.port)
    async with server:
        print(f"mail server listens on 127.0.0.1:{server.port}", flush=True)
        await asked_to_stop.wait()


def main() -> None:
    """Run as a process until SIGTERM or SIGINT; then exit status 0."""
    parser = argparse.ArgumentParser(prog="python -m infra.mail.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="where to listen on 127.0.0.1; 0 = any free one")
    parser.add_argument("--maildir", type=Path, required=True, help="where mail is kept")
    parser.add_argument("--log", type=Path, required=True, help="where to log, in Postfix's format")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
