"""The codec server, which decodes and encodes payloads for Temporal's Web UI and command, over HTTP.

Protocol: https://docs.temporal.io/codec-server. `POST .../decode` and `POST .../encode` take `Payloads` as protobuf's
JSON. Both need a token; a browser is answered only on pages of the Web UI's own origin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from google.protobuf import json_format
from temporalio.api.common.v1 import Payloads

from perdure._crypto.access import LONGEST, Access
from perdure._crypto.codec import Codec
from perdure.errors import InvalidSetting, Unopenable
from perdure.logs import log_event

log = logging.getLogger("perdure.codec-server")

LARGEST = 16 * 2**20
"""Bytes of a request. Temporal answers with at most 4 MB, which base64 and JSON make larger."""
_PATIENCE = 30.0
"""Seconds that a request may take, and that a connection may be idle or sending headers."""
MOST_CONNECTIONS = 500
_BEARER = web.RequestKey("bearer", str)
_SEND_AGAIN = str(600)
_ALLOWED = "Authorization, Authorization-Extras, Content-Type, X-Namespace"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Origin"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def codec_server(codec: Codec, access: Sequence[Access], origins: Sequence[str]) -> web.Application:
    """The server as an application of aiohttp.

    Args:
        codec: the codec of the workers.
        access: ways to authenticate; the first that recognises a bearer decides.
        origins: origins of the Web UI, such as `https://temporal.example.org`; none = no browser is answered.

    Raises:
        InvalidSetting: an origin is malformed, or no way to authenticate is given.
    """
    if not access:
        raise InvalidSetting("choose who may decode: --tokens FILE (`perdure codec-token`), or --jwks, or both")
    server = _Server(codec, access, frozenset(check_origin(each) for each in origins))
    application = web.Application(client_max_size=LARGEST, middlewares=[server.guarded])
    application[_IDLE] = server.idle
    for path in ("/{verb:decode|encode}", "/{above:.*}/{verb:decode|encode}"):  # `//` = an address without a namespace
        application.router.add_post(path, server.answer)
    return application


def check_origin(given: str) -> str:
    """An origin as a browser sends it (RFC 6454, 7).

    Raises:
        InvalidSetting: the text is no origin, or is `*`.
    """
    url = urlsplit(given)
    if url.scheme not in ("http", "https") or not url.hostname or given != f"{url.scheme}://{url.netloc}".lower():
        raise InvalidSetting(f"--origin {given!r} is no origin: write https://temporal.example.org, without a path")
    return given


async def serve(
    application: web.Application, host: str, port: int, stop: Awaitable[object], *, patience: float = _PATIENCE
) -> None:
    """Serve until `stop`.

    Args:
        patience: seconds after which a connection without complete headers is closed.

    Raises:
        InvalidSetting: the server cannot listen there.
    """
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=2)
    await runner.setup()
    requests, idle = runner.server, application[_IDLE]
    assert requests is not None
    idle.patience = patience

    def connection() -> web.RequestHandler:
        one = requests()
        idle.begin(one, 0 if len(requests.connections) >= MOST_CONNECTIONS else patience)
        return one

    try:
        server = await asyncio.get_running_loop().create_server(connection, host, port, reuse_address=True)
        log_event(log, "running", host=host, port=server.sockets[0].getsockname()[1])
        try:
            await stop
        finally:
            server.close()
    except OSError as error:
        raise InvalidSetting(f"it can't listen on {host}, port {port}: {error.strerror}") from error
    finally:
        await runner.cleanup()
        log_event(log, "stopped")


class _Idle:
    """Closes connections without a request under way: aiohttp itself waits for the rest of the headers for ever."""

    def __init__(self) -> None:
        self.patience = _PATIENCE
        self._timers: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def begin(self, connection: web.RequestHandler, patience: float) -> None:
        """Record that the connection has no request under way. It is closed after `patience` seconds."""
        self.end(connection)
        self._timers[connection] = asyncio.get_running_loop().call_later(patience, self._close, connection)

    def end(self, connection: web.RequestHandler) -> None:
        """Record that the headers of a request are complete."""
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()

    def _close(self, connection: web.RequestHandler) -> None:
        del self._timers[connection]
        connection.force_close()


_IDLE = web.AppKey("idle", _Idle)


class _Server:
    def __init__(self, codec: Codec, access: Sequence[Access], origins: frozenset[str]) -> None:
        self._codec = codec
        self._access = access
        self._origins = origins
        self.idle = _Idle()

    @web.middleware
    async def guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check origin and token of every request. An error's answer shows nothing of the payloads."""
        self.idle.end(request.protocol)
        try:
            return await self._guarded(request, handler)
        finally:
            self.idle.begin(request.protocol, self.idle.patience)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and origin not in self._origins:
            return _refusal(403, "that origin is none of --origin")
        if request.method == hdrs.METH_OPTIONS:
            answer: web.StreamResponse = _preflight(request)
        else:
            answer = await self._answered(request, handler)
        answer.headers.update(_HEADERS)
        if origin is not None:
            answer.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            answer.headers[hdrs.ACCESS_CONTROL_ALLOW_CREDENTIALS] = "true"
        return answer

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        bearer = await self._bearer(request)
        if bearer is None:
            log_event(log, "refused", peer=request.remote)
            return _refusal(401, "give a token: Authorization: Bearer ...", {hdrs.WWW_AUTHENTICATE: "Bearer"})
        request[_BEARER] = bearer
        try:
            async with asyncio.timeout(_PATIENCE):
                return await handler(request)
        except web.HTTPException as error:
            return _refusal(error.status, error.reason)
        except TimeoutError:
            return _refusal(408, "the request came too slowly")
        except Exception as error:  # its message may quote the payload
            log.error("a request failed: %s", type(error).__name__)
            return _refusal(500, "it failed: see the server's log")

    async def _bearer(self, request: web.Request) -> str | None:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token.isascii() or not 0 < len(token) <= LONGEST:
            return None
        for each in self._access:
            if (name := await each.name(token)) is not None:
                return name
        return None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Decode or encode."""
        verb = request.match_info["verb"]
        try:
            asked = json_format.Parse(await request.read(), Payloads())
        except (json_format.ParseError, UnicodeDecodeError, ValueError):
            return _refusal(400, "the body is no Payloads in protobuf's JSON")
        work = self._codec.decode if verb == "decode" else self._codec.encode
        try:
            done = Payloads(payloads=await work(asked.payloads))
        except Unopenable as error:
            return _refusal(422, str(error))
        namespace = request.headers.get("X-Namespace") or None
        log_event(log, f"{verb}d", by=request[_BEARER], count=len(asked.payloads), namespace=namespace)
        return web.Response(text=json_format.MessageToJson(done, indent=None), content_type="application/json")


def _preflight(request: web.Request) -> web.Response:
    """Answer a browser's preflight request, which carries no token."""
    if hdrs.ORIGIN not in request.headers or hdrs.ACCESS_CONTROL_REQUEST_METHOD not in request.headers:
        return _refusal(405, "POST to /decode or /encode")
    headers = {
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: hdrs.METH_POST,
        hdrs.ACCESS_CONTROL_ALLOW_HEADERS: _ALLOWED,
        hdrs.ACCESS_CONTROL_MAX_AGE: _SEND_AGAIN,
    }
    return web.Response(status=204, headers=headers)


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"message": why}, status=status, headers={**_HEADERS, **(headers or {})})
