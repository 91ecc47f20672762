"""Payloads to Temporal are encrypted and authenticated; what is not ours passes."""

from __future__ import annotations

import dataclasses
import secrets

import pytest
import temporalio.client
from pydantic import SecretStr
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import ClientConfig
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import WorkerConfig

from perdure import App, PerdurePlugin, Settings
from perdure._crypto.codec import CIPHER, KEY_ID, Codec, encrypting, encrypting_client, opened
from perdure._crypto.failures import Failures
from perdure._crypto.keyring import Keyring
from perdure.errors import DeclarationError, NotNow, UnknownKey, Unopenable

A, B = secrets.token_bytes(32), secrets.token_bytes(32)
PLAIN = Payload(metadata={"encoding": b"json/plain", "messageType": b"secret.Type"}, data=b'"a secret"')
CONFIG = Settings(keys=SecretStr("a:" + "QUFB" * 10 + "QUE="))


async def test_a_payload_comes_back_whole_and_shows_nothing_on_the_way() -> None:
    codec = Codec(Keyring({"a": A}))
    [sent] = await codec.encode([PLAIN])
    assert b"secret" not in sent.SerializeToString()
    assert (sent.metadata["encoding"], sent.metadata[KEY_ID]) == (b"binary/encrypted", b"a")
    assert await codec.decode([sent]) == [PLAIN]


async def test_each_time_it_looks_different() -> None:
    codec = Codec(Keyring({"a": A}))
    assert await codec.encode([PLAIN]) != await codec.encode([PLAIN])


async def test_payloads_of_an_older_key_are_read_and_the_first_key_encrypts() -> None:
    [old] = await Codec(Keyring({"a": A})).encode([PLAIN])
    codec = Codec(Keyring({"b": B, "a": A}))
    assert await codec.decode([old]) == [PLAIN]
    assert codec.encrypted(PLAIN).metadata[KEY_ID] == b"b"


async def test_a_key_that_is_not_here_is_named_and_a_changed_payload_refused() -> None:
    codec = Codec(Keyring({"a": A}))
    sent = codec.encrypted(PLAIN)
    with pytest.raises(UnknownKey, match="with the key 'a', and this process has b"):
        await Codec(Keyring({"b": B})).decode([sent])
    with pytest.raises(Unopenable):
        await Codec(Keyring({"a": B})).decode([sent])
    changed = Payload(metadata=sent.metadata, data=sent.data[:-1] + bytes([sent.data[-1] ^ 1]))
    with pytest.raises(Unopenable):
        await codec.decode([changed])
    moved = Payload(metadata={**sent.metadata, KEY_ID: b"b"}, data=sent.data)
    with pytest.raises(Unopenable):
        await Codec(Keyring({"a": A, "b": A})).decode([moved])


async def test_payloads_of_other_clients_pass() -> None:
    codec = Codec(Keyring({"a": A}))
    foreign = Payload(metadata={"encoding": b"binary/encrypted", KEY_ID: b"a"}, data=b"x" * 60)
    assert await codec.decode([PLAIN, foreign]) == [PLAIN, foreign]


async def test_an_encrypted_payload_is_not_encrypted_twice() -> None:
    codec = Codec(Keyring({"a": A}))
    sent = codec.encrypted(PLAIN)
    assert await codec.encode([sent]) == [sent]


async def test_before_it_is_switched_on_it_reads_and_sends_plain() -> None:
    [sent] = await Codec(Keyring({"a": A})).encode([PLAIN])
    codec = Codec(Keyring({"a": A}), encrypting=False)
    assert await codec.encode([PLAIN]) == [PLAIN]
    assert await codec.decode([sent]) == [PLAIN]


async def test_messages_of_failures_are_encrypted_and_can_be_opened() -> None:
    converter = encrypting(pydantic_data_converter, CONFIG)
    failure = Failure()
    error = ApplicationError("a secret", "a secret detail")
    error.__cause__ = NotNow("a secret cause")
    error.__cause__.__cause__ = ValueError("a secret value")
    await converter.encode_failure(error, failure)
    assert b"secret" not in failure.SerializeToString()
    readable = await opened(failure, converter)
    assert (readable.message, readable.cause.message) == ("a secret", "a secret cause")
    assert readable.cause.cause.message == "ValueError"  # its message may quote data
    assert (await opened(failure, pydantic_data_converter)).message == "Encoded failure"


def test_a_codec_of_the_app_s_own_stays() -> None:
    own = dataclasses.replace(pydantic_data_converter, payload_codec=Codec(Keyring({"x": A})))
    made = encrypting(own, CONFIG)
    assert made.payload_codec is own.payload_codec
    assert made.failure_converter_class is Failures
    assert encrypting(made, CONFIG) is made


async def test_a_client_without_keys_sends_plain_text_and_names_the_missing_key() -> None:
    codec = encrypting(pydantic_data_converter, Settings()).payload_codec
    assert codec is not None
    assert await codec.encode([PLAIN]) == [PLAIN] == await codec.decode([PLAIN])
    with pytest.raises(UnknownKey, match="with the key 'a', and this process has no keys: set PERDURE_KEYS"):
        await codec.decode([Codec(Keyring({"a": A})).encrypted(PLAIN)])


def test_a_client_of_the_app_s_own_is_given_the_codec_for_what_perdure_asks() -> None:
    own = temporalio.client.Client(None, data_converter=pydantic_data_converter)  # type: ignore[arg-type]
    client = encrypting_client(own, CONFIG)
    codec = client.data_converter.payload_codec
    assert isinstance(codec, Codec)
    assert codec.encrypting
    assert encrypting_client(client, CONFIG) is client


async def test_a_client_that_does_not_encrypt_is_no_client_for_a_worker_that_should() -> None:
    plain = encrypting(pydantic_data_converter, Settings())
    client = temporalio.client.Client(None, data_converter=plain)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="does not encrypt, and there are keys"):
        PerdurePlugin(App([], []), CONFIG).configure_worker(WorkerConfig(client=client, task_queue=CONFIG.queue))


def test_the_plugin_gives_a_client_the_codec() -> None:
    config = PerdurePlugin(App([], []), CONFIG).configure_client(ClientConfig(interceptors=[]))  # type: ignore[typeddict-item]
    assert config["data_converter"].payload_codec.encrypted(PLAIN).metadata["encryption-cipher"] == CIPHER  # type: ignore[union-attr]
