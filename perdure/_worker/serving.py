"""A small HTTP server in threads of its own, which answers also while the event loop of its process hangs."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from perdure._services.health import Health, Report
from perdure.errors import InvalidSetting

_PATIENCE = 10.0
"""Seconds that a client may take for a part of its request."""
_MOST = 50
"""Requests at a time. The oldest gives way to one more, so that nobody who sends slowly keeps a supervisor out."""


@dataclass(frozen=True, slots=True)
class Page:
    """The answer of one path."""

    body: str
    status: int = HTTPStatus.OK
    content_type: str = "text/plain; version=0.0.4; charset=utf-8"


def page_of(report: Report) -> Page:
    """A report as JSON, with status 200 for yes and 503 for no."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if report.problems else HTTPStatus.OK
    return Page(json.dumps(report.body) + "\n", status, "application/json")


def probes(health: Health) -> dict[str, Callable[[], Page]]:
    """The two paths for a supervisor of processes."""
    return {"/live": lambda: page_of(health.live()), "/ready": lambda: page_of(health.ready())}


@contextmanager
def serving(setting: str, address: str | None, pages: Mapping[str, Callable[[], Page]]) -> Iterator[None]:
    """Serve these pages until the block ends; without an address, serve nothing.

    Args:
        setting: the name of the setting, for an error.
        address: `host:port`.
        pages: the pages by path.

    Raises:
        InvalidSetting: the address cannot be used.
    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server = _server(host.strip("[]"), int(port), pages)
    except (OSError, OverflowError) as error:
        raise InvalidSetting(f"{setting}: {error}") from error
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def _server(host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE
        server_version, sys_version = "perdure", ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            found = page() if page else Page(f"there is {', '.join(pages)}\n", HTTPStatus.NOT_FOUND)
            body = found.body.encode()
            self.send_response(found.status)
            self.send_header("Content-Type", found.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        served: ClassVar[deque[socket.socket]] = deque()
        lock = threading.Lock()

        def process_request(self, request: Any, client_address: Any) -> None:
            with self.lock:
                self.served.append(request)
                if len(self.served) > _MOST:
                    with suppress(OSError):  # it has ended meanwhile
                        self.served.popleft().shutdown(socket.SHUT_RDWR)
            super().process_request(request, client_address)

        def shutdown_request(self, request: Any) -> None:
            with self.lock, suppress(ValueError):  # it has given way
                self.served.remove(request)
            super().shutdown_request(request)

    return Server((host, port), Handler)
