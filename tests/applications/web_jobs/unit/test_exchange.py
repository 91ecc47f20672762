"""Before the first byte of a request a failure is definite; after it the job is in doubt."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from activities.http.exchange import Broken, Exchange, HttpRequest
from activities.http.names import Names
from activities.web_jobs.settings import web_settings
from infra.certificates import Certificate
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.servers.ports import free_port
from tests.applications.web_jobs.fixtures import LOCAL, Answers, attempt, call, job_type, settings
from tests.deadline import DEADLINE, in_time, with_time_for
from tests.raw_page import Behaviour, RawPage, says, says_for_ever, silent

PATIENCE = 3.0  # seconds, where the page never answers
SHORT = 0.1  # seconds, where it is not even reached
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@asynccontextmanager
async def page(behaviour: Behaviour, certificate: Certificate | None = None, **options: bool) -> AsyncIterator[RawPage]:
    """A page that may be called."""
    async with RawPage(behaviour, **options).serving(None if certificate is None else certificate.context()) as serving:
        with settings(origins="*", networks=LOCAL):
            yield serving


BROKEN: dict[str, Behaviour] = {
    "closed": says(),
    "closed after the status": says(OK),
    "closed in the middle": says(OK + b"Content-Length: 10\r\n\r\n12345"),
    "chunks cut off": says(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    "chunks that are none": says(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"),
    "no HTTP": says(b"220 mail.example ESMTP\r\n"),
    "a status that is none": says(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "two lengths": says(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n12"),
    "a header without an end": says(OK + b"X: " + b"x" * 20_000 + b"\r\nContent-Length: 0\r\n\r\n"),
    "headers without an end": says(OK + b"X: x\r\n" * 2_000 + b"Content-Length: 0\r\n\r\n"),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_failure_after_the_request_left_is_in_doubt_and_not_tried_again(how: str) -> None:
    async with page(BROKEN[how]) as broken:
        for method in ("POST", "GET"):
            with pytest.raises(InDoubt, match=r"^the (answer|rest of the answer): "):
                await call(job_type(broken.origin + "/", method=method))
        assert broken.connections == 2, "the client tried again on its own"


DRIPS: dict[str, Behaviour] = {
    "nothing": silent,
    "body": says_for_ever(OK + b"Content-Length: 100000\r\n\r\n", b"x", every=0.05),
    "headers": says_for_ever(OK, b"X: x\r\n", every=0.05),
    "interim answers": says_for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", every=0.05),
}


async def test_a_page_that_never_answers_or_drips_is_in_doubt_at_the_deadline() -> None:
    async def end_of(drips: Behaviour, method: str) -> str:
        async with RawPage(drips).serving() as broken:

            async def end_after(seconds: float) -> str:
                with pytest.raises((InDoubt, NotDone)) as ended:
                    await call(job_type(broken.origin + "/", method=method), attempt(seconds))
                return f"{type(ended.value).__name__}: {ended.value}"

            end = await with_time_for(lambda: broken.got, end_after, PATIENCE)
            assert len(broken.got) == 1
            return end

    with settings(origins="*", networks=LOCAL):
        ends = await in_time(
            asyncio.gather(*(end_of(each, method) for each in DRIPS.values() for method in ("POST", "GET")))
        )
    waits = ["the answer"] * 2 + ["the rest of the answer"] * 2 + ["the answer"] * 4
    assert ends == [f"InDoubt: {stage}: nothing came in time" for stage in waits]


async def test_an_answer_without_an_end_is_read_up_to_the_limit_and_its_job_is_done() -> None:
    sent = 0

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + b"Content-Length: 10000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async with page(endless) as broken:
        answer = await call(job_type(broken.origin + "/"))
        assert (answer.status, answer.body) == (200, None)
        assert sent < 16_000_000  # what is read, and what lies in the buffers of two sockets


async def test_json_that_is_too_long_to_be_read_is_refused_since_it_could_list_children() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    async with page(says_for_ever(head + b'{"children": [', b'{"id": "1"},' * 5_000)) as broken:
        with pytest.raises(
            Refused, match="answered 200, so it was called; but its JSON can't be read: it is longer than"
        ):
            await call(job_type(broken.origin + "/"))


async def test_a_page_that_nobody_listens_for_means_not_done() -> None:
    with settings(origins="*", networks=LOCAL), pytest.raises(NotDone, match="connecting: connection refused"):
        await call(job_type(f"http://127.0.0.1:{free_port()}/"))


async def test_a_host_without_an_address_means_not_done() -> None:
    with settings(origins="*"), pytest.raises(NotDone, match="connecting: the host's name has no address"):
        await call(job_type("http://page.invalid/"), attempt())


class _NoAnswer(AbstractResolver):
    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        await asyncio.Event().wait()
        return []

    async def close(self) -> None: ...


async def test_a_name_server_that_does_not_answer_in_time_means_not_done() -> None:
    with settings(origins="*"), pytest.raises(NotDone, match="connecting: nothing came in time"):
        await call(job_type("http://page.example/"), attempt(SHORT, names=_NoAnswer()))


async def test_a_handshake_that_does_not_come_in_time_means_not_done() -> None:
    async with page(silent, reads=False) as broken:
        url = broken.origin.replace("http:", "https:")
        with pytest.raises(NotDone, match="connecting: nothing came in time"):
            await call(job_type(url + "/"), attempt(SHORT))


async def test_a_certificate_that_is_not_trusted_means_not_done_and_nothing_is_sent(certificate: Certificate) -> None:
    async with page(says(OK + b"Content-Length: 0\r\n\r\n"), certificate) as broken:
        url = broken.origin.replace("http:", "https:")
        with pytest.raises(NotDone, match="connecting: the certificate: self-signed certificate"):
            await call(job_type(url + "/"))
        assert broken.got == []


async def test_a_certificate_of_the_given_authority_is_trusted_for_its_own_name_alone(certificate: Certificate) -> None:
    async with page(says(OK + b"Content-Length: 2\r\n\r\nhi"), certificate) as serving:
        with settings(origins="*", networks=LOCAL, ca_file=certificate.cert):
            assert (await call(job_type(f"https://127.0.0.1:{serving.port}/"))).body == "hi"
            with pytest.raises(NotDone, match=r"connecting: the certificate: .* not valid for 'other.example'"):
                await call(job_type(f"https://other.example:{serving.port}/"), attempt(names=Answers("127.0.0.1")))


async def test_https_to_a_page_without_it_means_not_done() -> None:
    async with page(says(b"HTTP/1.1 400 Bad HttpRequest\r\n\r\n"), reads=False) as plain:
        with pytest.raises(NotDone, match="connecting: TLS: "):
            await call(job_type(plain.origin.replace("http:", "https:") + "/"))


class _FrozenBeforeTheFirstByte(Attempt):
    """Its time is over when it is connected."""

    def before_first_byte(self) -> None:
        raise NotDone("the attempt's time was over before the first byte left")


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_an_attempt_that_was_frozen_while_it_connected_sends_nothing(method: str) -> None:
    given = attempt()
    frozen = _FrozenBeforeTheFirstByte(given.key, 1, given.first_at, given.ends_at, resources=given.resources)
    got = asyncio.get_running_loop().create_future()

    async def listens(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        try:
            got.set_result(await reader.read())
        except ConnectionResetError:
            got.set_result(b"")

    async with page(listens, reads=False) as listening:
        with pytest.raises(NotDone, match="time was over"):
            await call(job_type(listening.origin + "/", method=method), frozen)
        assert await in_time(got) == b""


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # no job has one; it fills the buffers
@pytest.mark.parametrize(("size", "most"), [(200_000, 100_000), (20_000_000, 2_000_000)], ids=["the system's", "ours"])
async def test_a_request_that_has_not_arrived_by_the_deadline_never_arrives(size: int, most: int) -> None:
    """Whether it waits in the buffers of the system, or in those of this process."""
    with socket.socket() as listening, settings(origins="*", networks=LOCAL):
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        exchange = Exchange(
            HttpRequest("POST", url, body=b"x" * size), Names(), bounds=web_settings().bounds, seconds=PATIENCE
        )
        with pytest.raises(Broken, match="the answer: nothing came in time"):
            await exchange.make()
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(DEADLINE)
            assert await asyncio.to_thread(_all_of, connection) < most  # it was there before


def _all_of(connection: socket.socket) -> int:
    """How many bytes still come."""
    came = 0
    try:
        while piece := connection.recv(65_536):
            came += len(piece)
    except ConnectionResetError:
        pass
    return came


async def test_a_call_that_is_cancelled_says_whether_its_request_had_left() -> None:
    async with page(silent) as broken:
        calling = asyncio.ensure_future(call(job_type(broken.origin + "/"), attempt(60)))
        await in_time(broken.came.wait())
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        connecting = asyncio.ensure_future(call(job_type("http://page.example/"), attempt(60, names=_NoAnswer())))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(NotDone, match="connecting: the attempt was over"):
            await connecting


async def test_an_answer_that_is_whole_counts_however_the_connection_ends() -> None:
    async with page(says(OK + b"Content-Length: 2\r\n\r\nhi")) as closing:
        assert (await call(job_type(closing.origin + "/"))).body == "hi"
    async with page(says_for_ever(OK + b"Content-Length: 2\r\n\r\n", b"hi", every=60)) as holding:
        assert (await call(job_type(holding.origin + "/"))).body == "hi"


async def test_an_exchange_needs_no_attempt() -> None:
    async with page(says(OK + b"Content-Length: 2\r\n\r\nhi")) as serving:
        given = attempt()
        exchange = Exchange(
            HttpRequest("GET", serving.origin + "/"), given.resources.names, bounds=web_settings().bounds, seconds=60
        )
        assert (await exchange.make()).body == b"hi"
        assert exchange.left
