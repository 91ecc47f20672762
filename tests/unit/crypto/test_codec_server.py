"""The codec server answers only bearers of a token, on pages of the Web UI's origin, and no refusal shows content."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf import json_format
from jwt.algorithms import ECAlgorithm
from temporalio.api.common.v1 import Payload, Payloads

from perdure._crypto.access import Access, Signed, Tokens, new_token
from perdure._crypto.codec import Codec
from perdure._crypto.keyring import Keyring
from perdure._crypto.server import LARGEST, check_origin, codec_server, serve
from perdure.errors import InvalidSetting
from perdure.logs import FIELDS
from tests.deadline import in_time, until

UI = "https://temporal.example.org"
CODEC = Codec(Keyring({"a": b"1" * 32}))
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"a secret"')
TOKEN, KEPT = new_token()
TOKENS = Tokens({"ann": KEPT.removeprefix("sha256:")})
BEARER = {"Authorization": f"Bearer {TOKEN}"}
AUDIENCE, ISSUER = "perdure-codec", "https://sso.example.org"


def body(*payloads: Payload) -> str:
    """As Temporal sends it."""
    return json_format.MessageToJson(Payloads(payloads=payloads))


@asynccontextmanager
async def listening(application: web.Application) -> AsyncIterator[str]:
    """Its address, for as long as the context lasts."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving(*access: Access, origins: tuple[str, ...] = (UI,)) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with a codec server."""
    async with (
        listening(codec_server(CODEC, access or (TOKENS,), origins)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        yield session


async def test_a_bearer_has_payloads_decoded_and_encoded() -> None:
    async with serving() as session:
        async with session.post("/decode", data=body(CODEC.encrypted(PLAIN), PLAIN), headers=BEARER) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            assert list(json_format.Parse(await answer.text(), Payloads()).payloads) == [PLAIN, PLAIN]
        async with session.post("/shop/eu/encode", data=body(PLAIN), headers=BEARER) as answer:
            [encoded] = json_format.Parse(await answer.text(), Payloads()).payloads
    assert CODEC.decrypted(encoded) == PLAIN != encoded


@pytest.mark.parametrize(
    "authorization",
    [None, "", TOKEN, f"Basic {TOKEN}", "Bearer ", "Bearer x", f"Bearer {TOKEN}x", f"Bearer {KEPT}", "Bearer \u00e9"],
    ids=["none", "empty", "bare", "basic", "blank", "other", "longer", "its-hash", "no-ascii"],
)
@pytest.mark.parametrize("verb", ["decode", "encode", "anything"])
async def test_a_request_without_a_token_gets_no_data(verb: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with serving() as session, session.post(f"/{verb}", data=body(PLAIN), headers=headers) as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "secret" not in await answer.text()


async def test_a_browser_may_ask_from_the_ui_s_page_and_from_no_other() -> None:
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-namespace"}
    async with serving() as session:
        async with session.options("/decode", headers={"Origin": UI, **ask}) as answer:
            assert answer.status == 204
            said = answer.headers
            assert said["Access-Control-Allow-Origin"] == UI
            assert said["Access-Control-Allow-Credentials"] == "true"
            allowed = said["Access-Control-Allow-Headers"].lower().split(", ")
            assert {"authorization", "content-type", "x-namespace"} <= set(allowed)
            assert said["Vary"] == "Origin"
        async with session.post("/decode", data=body(PLAIN), headers={"Origin": UI, **BEARER}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, UI)
        async with session.post("/decode", data=body(PLAIN), headers={"Origin": UI}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (
                401,
                UI,
            )  # so that the page sees why


@pytest.mark.parametrize(
    "origin", ["https://evil.example", f"{UI}.evil.example", f"{UI}:8443", "http://" + UI[8:], "null"]
)
@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
async def test_another_page_gets_nothing_even_with_a_token(origin: str, method: str) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", **BEARER}
    given = body(CODEC.encrypted(PLAIN))
    async with serving() as session, session.request(method, "/decode", data=given, headers=headers) as answer:
        assert answer.status == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "secret" not in await answer.text()


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("a secret", 400),
        ('{"payloads": "a secret"}', 400),
        ('{"payloads": [{"a secret": 1}]}', 400),
        (body(Codec(Keyring({"b": b"2" * 32})).encrypted(PLAIN)), 422),
    ],
    ids=["no-json", "no-payloads", "unknown-field", "unknown-key"],
)
async def test_an_undecodable_payload_is_refused_and_not_repeated(given: str, status: int) -> None:
    async with serving() as session, session.post("/decode", data=given, headers=BEARER) as answer:
        assert answer.status == status
        assert "secret" not in await answer.text()
        if status == 422:
            assert "with the key 'b'" in await answer.text()


async def test_a_request_that_is_too_large_is_not_read_to_its_end() -> None:
    given = io.BytesIO(bytes(LARGEST + 1))
    async with serving() as session, session.post("/decode", data=given, headers=BEARER) as answer:
        assert answer.status == 413


async def test_the_log_has_who_decoded_how_many_and_no_payload(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sent = {**BEARER, "X-Namespace": "shop"}
    async with serving() as session, session.post("/decode", data=body(CODEC.encrypted(PLAIN)), headers=sent):
        pass
    told = [vars(each)["perdure"] for each in caplog.records if each.message == "decoded"]
    assert told == [{"by": "ann", "count": 1, "namespace": "shop"}]
    assert "secret" not in caplog.text
    assert TOKEN not in caplog.text


async def test_a_jwt_of_the_sso_is_let_in_and_one_that_is_not_for_us_is_not() -> None:
    ours, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    fetched: list[str] = []

    async def jwks(request: web.Request) -> web.Response:
        fetched.append(request.path)
        key = json.loads(ECAlgorithm.to_jwk(ours.public_key()))
        return web.json_response({"keys": [{**key, "kid": "k1", "use": "sig", "alg": "ES256"}]})

    provider = web.Application()
    provider.router.add_get("/keys", jwks)
    good = {"sub": "ann", "aud": AUDIENCE, "iss": ISSUER, "exp": time.time() + 60, "groups": ["on-call"]}

    def signed(key: Any = ours, kid: str = "k1", **claims: Any) -> str:
        told = {name: value for name, value in {**good, **claims}.items() if value is not None}
        return jwt.encode(told, key, algorithm="ES256", headers={"kid": kid})

    none = jwt.encode(good, key="", algorithm="none", headers={"kid": "k1"})
    public = json.dumps(ECAlgorithm.to_jwk(ours.public_key()))
    shared = jwt.encode(good, key=public, algorithm="HS256", headers={"kid": "k1"})
    wrong = {
        "another key": signed(other),
        "another service": signed(aud="temporal"),
        "another provider": signed(iss="https://evil.example"),
        "too old": signed(exp=time.time() - 60),
        "without an end": signed(exp=None),
        "not on call": signed(groups=["all"]),
        "unknown key": signed(kid="k2"),
        "unsigned": none,
        "signed with the public key": shared,
        "no jwt": "a.b.c",
    }
    async with listening(provider) as address:
        access = Signed(f"{address}/keys", AUDIENCE, ISSUER, claims={"groups": "on-call"})
        assert await access.name(signed()) == "ann"
        assert {what: await access.name(token) for what, token in wrong.items()} == dict.fromkeys(wrong)
        assert len(fetched) == 1  # a stranger's key id does not have the provider asked again at once
        async with serving(TOKENS, access) as session:
            sent = {"Authorization": f"Bearer {signed()}"}
            async with session.post("/decode", data=body(PLAIN), headers=sent) as answer:
                assert answer.status == 200


async def test_while_the_sso_is_away_nobody_is_let_in_by_it() -> None:
    access = Signed("http://127.0.0.1:1/keys", AUDIENCE, ISSUER)
    token = jwt.encode({}, "x" * 32, algorithm="HS256", headers={"kid": "k1"})
    assert [await access.name(token) for _ in range(2)] == [None, None]


async def test_while_the_sso_is_away_a_stranger_locks_out_nobody_whose_key_is_known() -> None:
    ours = ec.generate_private_key(ec.SECP256R1())
    key = {**json.loads(ECAlgorithm.to_jwk(ours.public_key())), "kid": "k1", "use": "sig", "alg": "ES256"}

    async def jwks(_: web.Request) -> web.Response:
        return web.json_response({"keys": [key]})

    provider = web.Application()
    provider.router.add_get("/keys", jwks)
    claims = {"sub": "ann", "aud": AUDIENCE, "iss": ISSUER, "exp": time.time() + 3600}
    ann = jwt.encode(claims, ours, algorithm="ES256", headers={"kid": "k1"})
    stranger = jwt.encode({}, "x" * 32, algorithm="HS256", headers={"kid": "k9"})
    async with listening(provider) as address:
        access = Signed(f"{address}/keys", AUDIENCE, ISSUER)
        assert await access.name(ann) == "ann"
    assert access._keys._last_successful_fetch is not None
    access._keys._last_successful_fetch -= access._keys.cooldown_duration + 1  # the next unknown key is asked for
    assert await access.name(stranger) is None
    assert access._away_until > time.monotonic()
    assert await access.name(ann) == "ann"


def test_a_server_that_would_let_everybody_in_or_nobody_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="choose who may decode"):
        codec_server(CODEC, (), ())
    with pytest.raises(InvalidSetting, match="must be an https:// URL"):
        Signed("http://sso.example.org/keys", AUDIENCE, ISSUER)
    file = tmp_path / "tokens"
    for text, why in [("", "no token in it"), ("ann secret", "line 1 is no new"), (f"a {KEPT}\na {KEPT}", "line 2")]:
        file.write_text(text)
        with pytest.raises(InvalidSetting, match=why) as error:
            Tokens.from_file(file)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "given", ["*", "", "null", f"{UI}/", "temporal.example.org", "https://Temporal.example.org", f"{UI}/x"]
)
def test_an_origin_that_no_browser_says_is_refused(given: str) -> None:
    with pytest.raises(InvalidSetting, match="is no origin"):
        check_origin(given)


async def test_a_token_that_was_made_is_known_by_its_line(tmp_path: Path) -> None:
    token, kept = new_token()
    (tmp_path / "tokens").write_text(f"# who may\nbob {KEPT}\nann.b@x {kept}\n")
    assert await Tokens.from_file(tmp_path / "tokens").name(token) == "ann.b@x"
    assert token not in kept


HALF = b"POST /decode HTTP/1.1\r\nHost: localhost\r\nX-Half: "


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half-sent headers"])
async def test_a_connection_without_a_request_is_closed(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served(patience=0.01, caplog=caplog) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        with suppress(ConnectionResetError):  # the server may close before it has read what was sent
            assert await in_time(reader.read()) == b""
        writer.close()


async def test_headers_that_come_byte_by_byte_hold_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with served(patience=0.01, caplog=caplog) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF)
        answer = asyncio.create_task(reader.read())
        while not answer.done() and not writer.transport.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0)
        with suppress(ConnectionError):
            assert await in_time(answer) == b""
        writer.close()


async def test_a_connection_is_closed_after_its_last_request(caplog: pytest.LogCaptureFixture) -> None:
    async with served(patience=2, caplog=caplog) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await in_time(reader.read())).startswith(b"HTTP/1.1 401")
        writer.close()


@asynccontextmanager
async def served(patience: float, caplog: pytest.LogCaptureFixture) -> AsyncIterator[int]:
    """The port on which `serve` listens."""
    caplog.set_level(logging.INFO, "perdure.codec-server")
    stop = asyncio.Event()
    application = codec_server(CODEC, [TOKENS], [UI])
    serving = asyncio.create_task(serve(application, "127.0.0.1", 0, stop.wait(), patience=patience))
    ports = await until(lambda: [getattr(each, FIELDS).get("port") for each in caplog.records], "it listens")
    try:
        yield ports[0]
    finally:
        stop.set()
        await in_time(serving)
