"""A status callback reaches its lifecycle once, as a message, and only the provider can send one."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import asyncpg
import pytest
from yarl import URL

from activities.telephony.settings import telephony_settings
from activities.telephony.twilio.credentials import authorization
from activities.telephony.twilio.request import RETRIES, callback_url
from infra.telephony.reports import signature
from infra.telephony.server import ACCOUNT, TOKEN
from perdure import Entity
from perdure.contracts import Key
from perdure.servers.postgres import PostgresServer
from tests.command import nobody
from tests.deadline import in_time
from workers.telephony.callbacks import MOST, StatusCallbacks

PUBLIC = "https://hooks.example/perdure/telephony"
KEY = Key.of(Entity("dose", "ann/8:00 ~ ä%/2026-03-01T08:00"), "send-sms")
SID, CALL = "SM" + "1" * 32, "CA" + "2" * 32
SENT = {"MessageSid": SID, "MessageStatus": "sent", "To": "+15552223333", "From": "+15005550006", "Body": ""}


@dataclass
class Receiver:
    """A receiver in this process, behind a proxy that has changed host and path."""

    url: str
    db: asyncpg.Connection[asyncpg.Record]

    async def post(
        self,
        form: dict[str, str],
        *,
        key: Key = KEY,
        token: str = TOKEN,
        signed: str | None = None,
        given: str | None = None,
    ) -> int:
        """Report it as the provider does; the status of the answer."""
        public = callback_url(PUBLIC, key).partition("#")[0]
        given = signature(token, signed or public, form) if given is None else given
        url = public.replace(PUBLIC, f"{self.url}/behind")
        return await posted(url, urlencode(form).encode(), **{"X-Twilio-Signature": given})

    async def heard(self) -> list[tuple[str, Any]]:
        """What the lifecycle is told, in order."""
        rows = await self.db.fetch("select message_id, name, payload from perdure.message order by message_id")
        return [(row["message_id"], json.loads(row["payload"])) for row in rows]


async def posted(url: str, body: bytes, method: str = "POST", **headers: str) -> int:
    headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, URL(url, encoded=True), data=body, headers=headers) as answer,
    ):
        return answer.status


@asynccontextmanager
async def receiving(dsn: str, **options: Any) -> AsyncIterator[str]:
    """Where a receiver in this process listens."""
    async with (
        asyncpg.create_pool(dsn, min_size=0, max_size=3) as pool,
        StatusCallbacks(pool, telephony_settings(), **options).listening("127.0.0.1", 0) as port,
    ):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PERDURE_TELEPHONY_ACCOUNT_SID", ACCOUNT)
    monkeypatch.setenv("PERDURE_TELEPHONY_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("PERDURE_TELEPHONY_SENDER", "+15005550006")
    monkeypatch.setenv("PERDURE_TELEPHONY_CALLBACK_URL", PUBLIC)
    telephony_settings.cache_clear()
    yield
    telephony_settings.cache_clear()


@pytest.fixture
async def receiver(postgres: PostgresServer, database: str, configured: None) -> AsyncIterator[Receiver]:
    db = await asyncpg.connect(postgres.dsn(database))
    await db.execute("select perdure.start('dose', 'ann/8:00 ~ ä%/2026-03-01T08:00', '{}')")
    async with receiving(postgres.dsn(database)) as url:
        yield Receiver(url, db)
    await db.close()


async def test_each_status_is_heard_once_however_often_and_in_whatever_order_it_comes(receiver: Receiver) -> None:
    delivered = {**SENT, "MessageStatus": "delivered"}
    for form in (delivered, SENT, delivered, SENT):
        assert await receiver.post(form) == 204
    reference = callback_url(PUBLIC, KEY).partition("ref=")[2].partition("#")[0]
    said = {"sid": SID, "channel": "sms", "status": "delivered", "code": None, "reference": reference}
    assert sorted(await receiver.heard()) == [
        (f"{SID}/delivered", said),
        (f"{SID}/sent", said | {"status": "sent"}),
    ]
    assert len(reference) == 8


async def test_a_failure_is_heard_with_its_code_and_a_call_as_a_call(receiver: Receiver) -> None:
    assert await receiver.post({**SENT, "MessageStatus": "undelivered", "ErrorCode": "30006"}) == 204
    assert await receiver.post({"CallSid": CALL, "CallStatus": "no-answer", "ToState": ""}) == 204
    told = {message: (said["channel"], said["code"]) for message, said in await receiver.heard()}
    assert told == {f"{SID}/undelivered": ("sms", 30006), f"{CALL}/no-answer": ("call", None)}


async def test_it_counts_with_the_fragment_in_what_was_signed_too(receiver: Receiver) -> None:
    assert await receiver.post(SENT, signed=callback_url(PUBLIC, KEY)) == 204
    assert callback_url(PUBLIC, KEY).endswith(RETRIES)


async def test_a_callback_without_a_valid_signature_is_refused(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    other = Key.of(Entity("dose", "ben"), "send-sms")
    seen = callback_url(f"{receiver.url}/behind", KEY).partition("#")[0]
    with caplog.at_level(logging.DEBUG):
        assert await receiver.post(SENT, token="b" * 32) == 403
        assert await receiver.post(SENT, signed=callback_url(PUBLIC, other)) == 403
        assert await receiver.post(SENT, signed=seen) == 403, "it is the public URL that is signed"
        assert await receiver.post(SENT, given="") == 403
        assert await posted(f"{receiver.url}/", b"") == 403
        assert await posted(f"{receiver.url}/?of=dose&id=ann&ref=7K3Q9MXD", b"\xff=\xff") == 403
    assert await receiver.heard() == []
    assert [each for each in ("15552223333", "ann", SID, TOKEN) if each in caplog.text] == []


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"MessageSid": SID},
        {"MessageSid": "x", "MessageStatus": "sent"},
        {"MessageSid": SID, "MessageStatus": "Robert'); drop"},
        {"MessageSid": SID, "MessageStatus": "failed", "ErrorCode": "many"},
    ],
)
async def test_a_request_that_is_no_status_callback_is_sent_to_no_lifecycle(
    receiver: Receiver, form: dict[str, str]
) -> None:
    assert await receiver.post(form) == 400
    assert await receiver.heard() == []


async def test_a_callback_for_an_ended_entity_does_no_harm(receiver: Receiver) -> None:
    assert await receiver.post(SENT, key=Key.of(Entity("dose", "gone"), "send-sms")) == 404
    await receiver.db.execute("update perdure.ident set final = 'sent'")
    assert await receiver.post(SENT) == 204
    assert await receiver.heard() == []


async def test_too_much_or_otherwise_is_refused(receiver: Receiver) -> None:
    assert await posted(receiver.url, b"x" * (MOST + 1)) == 413
    assert await posted(receiver.url, b"", "GET") == 405


async def test_while_the_database_is_away_it_is_to_be_said_again(receiver: Receiver) -> None:
    async with receiving(f"postgresql://postgres@{nobody()}/x") as url:
        assert await Receiver(url, receiver.db).post(SENT) == 503


async def test_both_tokens_count_while_they_are_changed_and_one_may_be_in_a_file(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "token").write_text("c" * 32 + "\n")
    monkeypatch.setenv("PERDURE_TELEPHONY_AUTH_TOKEN", f"file:{tmp_path}/token {TOKEN}")
    telephony_settings.cache_clear()
    async with receiving("postgresql://postgres@127.0.0.1:1/x") as url:
        two = Receiver(url, receiver.db)
        assert [await two.post(SENT, token=each) for each in ("c" * 32, TOKEN, "d" * 32)] == [503, 503, 403]


async def test_while_a_token_can_not_be_read_what_no_other_token_has_signed_is_to_be_said_again(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("PERDURE_TELEPHONY_AUTH_TOKEN", f"file:{token}")
    telephony_settings.cache_clear()
    async with receiving("postgresql://postgres@127.0.0.1:1/x") as url:
        with caplog.at_level(logging.INFO):
            assert await Receiver(url, receiver.db).post(SENT) == 503
        assert "can't check a signature" in caplog.text
        assert await posted(f"{url}/?of=dose&id=ann&ref=7K3Q9MXD", b"\xff=\xff") == 403
        token.write_text("d" * 32)
        assert await Receiver(url, receiver.db).post(SENT) == 403


async def test_a_token_counts_while_the_other_one_can_not_be_read(
    receiver: Receiver, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("PERDURE_TELEPHONY_AUTH_TOKEN", f"{TOKEN} file:{tmp_path}/old")
    telephony_settings.cache_clear()
    assert authorization(telephony_settings()).startswith("Basic ")
    async with receiving(postgres.dsn(database)) as url:
        two = Receiver(url, receiver.db)
        assert [await two.post(SENT, token=each) for each in (TOKEN, "d" * 32)] == [204, 503]


async def test_the_receiver_is_a_process_that_ends_when_it_is_told_to(
    receiver: Receiver, postgres: PostgresServer, database: str
) -> None:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "telephony", "callbacks", "--listen", "127.0.0.1:0"),
        env={
            **os.environ,
            "PERDURE_DATABASE_URL": postgres.dsn(database),
            "PERDURE_APP": "tests.applications.telephony.announcing:app",
            "PERDURE_LOG": "json",
        },
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert running.stderr is not None
        line = json.loads(await in_time(running.stderr.readline()))
        assert await Receiver(f"http://{line['address']}", receiver.db).post(SENT) == 204
        running.send_signal(signal.SIGTERM)
        rest = await in_time(running.stderr.read())
        assert await running.wait() == 0
        assert b"15552223333" not in rest
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert [message for message, _ in await receiver.heard()] == [f"{SID}/sent"]
