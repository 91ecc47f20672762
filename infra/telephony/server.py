"""The telephony server: answers as in Twilio's documentation, logs what it accepts, and fails as ordered.

`async with TelephonyServer() as server` in a test; `python -m infra.telephony.server --help` as a process.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import secrets
import signal
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from infra.telephony.faults import ACCEPTS, Chance, Fault, Orders, Report
from infra.telephony.numbers import wrong_with
from infra.telephony.reports import Reports
from infra.telephony.resources import VERSION, Resource, matches, page

__all__ = ["ACCOUNT", "TOKEN", "Chance", "Fault", "Report", "TelephonyServer", "accepted_in"]

ACCOUNT = "AC" + "5" * 32
TOKEN = "a" * 32
"""Account and auth token, where none are given."""
_ERRORS = {429: (20429, "Too Many Requests"), 500: (20500, "Internal Server Error"), 503: (20503, "Unavailable")}


class TelephonyServer:
    """An HTTP server on 127.0.0.1, in the running event loop.

    Args:
        port: where to listen; 0 takes a free one, see `port` after the start.
        account, token: whose requests are answered.
        log: a file of JSON lines that is written to as well.
        chance: faults by chance.
        pace: seconds between two states of what was accepted.
        silence: seconds of a delay.
        late: seconds by which a late callback is late.
        lag: seconds after which what was accepted is in the lists.
        events_after: seconds after the end of a call from which its events are shown; 15 minutes at the real one.

    Attributes:
        orders: what goes wrong next.
        answers: once it is set, no delay lasts any longer.
        lines: the log: `at`, `what`, `outcome`, and so on.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        account: str = ACCOUNT,
        token: str = TOKEN,
        log: Path | None = None,
        chance: Chance | None = None,
        pace: float = 0.02,
        silence: float = 5.0,
        late: float = 1.0,
        lag: float = 0.0,
        events_after: float = 900.0,
    ) -> None:
        self.port, self.account, self.token = port, account, token
        self.lag, self.silence, self.events_after = lag, silence, events_after
        self.orders = Orders(chance or Chance())
        self.answers = asyncio.Event()
        self.lines: list[dict[str, Any]] = []
        self.resources: dict[str, Resource] = {}
        self._file = None if log is None else log.open("a", buffering=1)
        self.reports = Reports(token, self.orders, self._log, pace=pace, late=late)
        self._runner: web.ServerRunner | None = None

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def accepted(self) -> list[Resource]:
        """All that was accepted, in its order."""
        return list(self.resources.values())

    @property
    def references(self) -> Counter[str]:
        """How often each reference was accepted: more than once is a mistake."""
        return Counter(each.reference for each in self.accepted)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests that would have created something, and how they ended."""
        return [line for line in self.lines if line["what"] in ("message", "call")]

    async def __aenter__(self) -> TelephonyServer:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.reports.close()
        await self.down()
        if self._file is not None:
            self._file.close()

    async def up(self) -> None:
        """Listen (again, at the same port)."""
        server = web.Server(self._answer, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        """Refuse connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: Any) -> web.StreamResponse:
        body = await request.read()
        if request.path == "/-/orders":
            return self._ordered(json.loads(body))
        if not self._is_authorized(request):
            return self._error(401, 20003, "Authenticate")
        base = f"/{VERSION}/Accounts/{self.account}/"
        if not request.path.startswith(base):
            return self._error(404, 20404, f"The requested resource {request.path} was not found")
        rest = request.path.removeprefix(base).removesuffix(".json")
        if request.method == "POST" and rest in ("Messages", "Calls"):
            return await self._create(request, rest == "Calls", parse_qsl(body.decode(), keep_blank_values=True))
        return self._show(request, rest.split("/"))

    def _is_authorized(self, request: Any) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        with suppress(ValueError):
            return kind == "Basic" and base64.b64decode(given).decode() == f"{self.account}:{self.token}"
        return False

    def _ordered(self, given: dict[str, Any]) -> web.StreamResponse:
        """`POST /-/orders {"requests": ["reset-after", null], "reports": ["twice"]}`, for tests of another process."""
        self.orders.order(*(None if each is None else Fault(each) for each in given.get("requests", ())))
        self.orders.order_reports(*(None if each is None else Report(each) for each in given.get("reports", ())))
        return web.json_response({})

    async def _create(self, request: Any, call: bool, given: list[tuple[str, str]]) -> web.StreamResponse:
        form, fault = dict(given), self.orders.request()
        wanted = tuple(value for name, value in given if name == "StatusCallbackEvent")
        wrong = wrong_with(form, call=call)
        line = {"what": "call" if call else "message", "to": form.get("To", "")}
        if wrong is not None and fault in (None, *ACCEPTS):
            self._log(**line, outcome=wrong[0])
            return self._error(400, *wrong)
        if fault is Fault.DELAY_BEFORE:
            await self._delay()
        resource = None
        if fault is None or fault in ACCEPTS:
            resource = self._accepted(form, call, wanted)
            line |= {"sid": resource.sid, "reference": resource.reference}
        self._log(**line, outcome="accepted" if resource else "not accepted", fault=fault)
        if fault is not None:
            return await self._fails(request, fault, resource)
        assert resource is not None
        return web.json_response(resource.shown() | {"date_sent": None, "status": "queued"}, status=201)

    async def _delay(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.answers.wait(), self.silence)

    def _accepted(self, form: dict[str, str], call: bool, wanted: tuple[str, ...]) -> Resource:
        sid = ("CA" if call else "SM") + secrets.token_hex(16)
        resource = self.resources[sid] = Resource(sid, self.account, form, datetime.now(UTC), wanted)
        self.reports.begin(resource)
        return resource

    async def _fails(self, request: Any, fault: Fault, resource: Resource | None) -> web.StreamResponse:
        match fault:
            case Fault.RESET_BEFORE | Fault.RESET_AFTER:
                request.transport.abort()
                return web.Response()
            case Fault.DELAY_AFTER:
                await self._delay()
            case Fault.TRUNCATED:
                return await self._truncated(request)
            case Fault.NOT_JSON | Fault.GATEWAY:
                status = 201 if fault is Fault.NOT_JSON else 502
                return web.Response(status=status, text="<html>Bad Gateway</html>", content_type="text/html")
            case Fault.REDIRECT:
                return web.Response(status=307, headers={"Location": f"{self.origin}/elsewhere"})
            case Fault.PASSWORD:
                return self._error(401, 20003, "Authenticate")
            case Fault.TOO_MANY | Fault.ERROR_BEFORE | Fault.ERROR_AFTER | Fault.UNAVAILABLE:
                status = int(fault.value[:3])
                return self._error(status, *_ERRORS[status])
            case Fault.DELAY_BEFORE:
                pass
        assert resource is not None
        return web.json_response(resource.shown(), status=201)

    async def _truncated(self, request: Any) -> web.StreamResponse:
        answer = web.StreamResponse(status=201, headers={"Content-Type": "application/json", "Content-Length": "900"})
        await answer.prepare(request)
        await answer.write(b'{"sid": "SM')
        request.transport.abort()
        return answer

    def _show(self, request: Any, parts: list[str]) -> web.StreamResponse:
        query, path = dict(request.query), request.path
        now = datetime.now(UTC)
        if len(parts) == 1 and parts[0] in ("Messages", "Calls"):
            name = parts[0].lower()
            listed = [
                each.shown()
                for each in reversed(self.accepted)
                if each.call == (name == "calls")
                and (now - each.created).total_seconds() >= self.lag
                and matches(each, query)
            ]
            return web.json_response(page(name, path, query, listed))
        resource = self.resources.get(parts[1]) if len(parts) > 1 else None
        if resource is None:
            return self._error(404, 20404, f"The requested resource {path} was not found")
        if parts[2:] == ["Events"]:
            over = resource.ended is not None and (now - resource.ended).total_seconds() >= self.events_after
            return web.json_response(page("events", path, query, resource.events if over else []))
        return web.json_response(resource.shown())

    def _error(self, status: int, code: int, message: str) -> web.StreamResponse:
        about = f"https://www.twilio.com/docs/errors/{code}"
        body = {"code": code, "message": message, "more_info": about, "status": status}
        headers = {"Retry-After": "1"} if status in (429, 503) else {}
        return web.json_response(body, status=status, headers=headers)

    def _log(self, what: str, **about: Any) -> None:
        line = {"at": datetime.now(UTC).isoformat(), "what": what, **about}
        self.lines.append(line)
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")


def accepted_in(log: Path) -> Counter[str]:
    """How often each reference was accepted, by the log of a server in another process."""
    lines = (json.loads(line) for line in log.read_text().splitlines())
    return Counter(str(line["reference"]) for line in lines if line.get("outcome") == "accepted")


async def _serve(given: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    chance = Chance(given.faults, given.report_faults, given.seed)
    server = TelephonyServer(
        given.port,
        log=given.log,
        chance=chance,
        pace=given.pace,
        silence=given.silence,
        late=given.late,
        lag=given.lag,
        events_after=given.events_after,
    )
    async with server:
        print(f"listening at {server.origin} for account {ACCOUNT}, auth token {TOKEN}", flush=True)
        await stop.wait()


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8089, help="0 = a free one, which the first line shows")
    options.add_argument("--log", type=Path, help="JSON lines of what was accepted, refused and reported")
    options.add_argument("--faults", type=float, default=0.0, help="share of requests that go wrong, 0 to 1")
    options.add_argument("--report-faults", type=float, default=0.0, help="share of callbacks that go wrong, 0 to 1")
    options.add_argument("--seed", type=int, default=0, help="of what goes wrong")
    options.add_argument("--pace", type=float, default=0.2, help="seconds between two states of what was accepted")
    options.add_argument("--silence", type=float, default=20.0, help="seconds of a delay")
    options.add_argument("--late", type=float, default=5.0, help="seconds by which a late callback is late")
    options.add_argument("--lag", type=float, default=0.0, help="seconds after which a list shows what was accepted")
    options.add_argument("--events-after", type=float, default=900.0, help="seconds after a call that events are shown")
    asyncio.run(_serve(options.parse_args()))


if __name__ == "__main__":
    main()
