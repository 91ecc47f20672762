"""`Codec`: encrypts every payload that goes to Temporal, by AES-256-GCM; and the converter that uses it.

An encrypted payload has the encoding `binary/encrypted` and the id of its key. Its data are a nonce of 12 bytes, the
whole original payload, encrypted, and a tag of 16 bytes. Encoding and key id are authenticated. Other payloads pass
unchanged: those that were sent before there were keys, and those of other senders.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    PayloadCodec,
)

from perdure._crypto.failures import EncodedFailures, Failures
from perdure._crypto.keyring import Keyring, keyring
from perdure.errors import UnknownKey, Unopenable

if TYPE_CHECKING:
    from perdure.settings import Settings

ENCODING = b"binary/encrypted"
CIPHER = b"perdure/1 AES-256-GCM"
"""Metadata `encryption-cipher`, which distinguishes our payloads from another codec's with the same encoding."""
KEY_ID = "encryption-key-id"
_RPC = timedelta(seconds=5)


class Codec(PayloadCodec):
    """Encrypts payloads and decrypts them.

    Args:
        keys: the first one encrypts, all decrypt; None = nothing is encrypted, and an encrypted payload raises an
            error about the missing keys.
        encrypting: False = only decrypt, for the time until every process has the keys.
    """

    def __init__(self, keys: Keyring | None, *, encrypting: bool = True) -> None:
        self.keys = keys
        self.encrypting = encrypting and keys is not None

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class."""
        return [self.encrypted(each) for each in payloads] if self.encrypting else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class. In a worker, an error fails the task, and Temporal repeats it until the worker has the key.

        Raises:
            UnknownKey: this process does not have the key; the message names its id.
            Unopenable: the payload was changed.
        """
        return [self.decrypted(each) for each in payloads]

    def encrypted(self, payload: Payload) -> Payload:
        """One payload, encrypted. An encrypted payload stays unchanged."""
        if is_ours(payload):
            return payload
        assert self.keys is not None
        key_id = self.keys.current
        data = self.keys.encrypt(payload.SerializeToString(), _bound(key_id))
        metadata = {"encoding": ENCODING, "encryption-cipher": CIPHER, KEY_ID: key_id.encode()}
        return Payload(metadata=metadata, data=data)

    def decrypted(self, payload: Payload) -> Payload:
        """One original payload. A payload that is not ours stays unchanged. Raises as `decode`."""
        if not is_ours(payload):
            return payload
        key_id = payload.metadata.get(KEY_ID, b"").decode("ascii", "replace")
        if self.keys is None:
            raise UnknownKey(f"it is encrypted with the key {key_id!r}, and this process has no keys: set PERDURE_KEYS")
        plain = self.keys.decrypt(key_id, payload.data, _bound(key_id))
        try:
            return Payload.FromString(plain)
        except DecodeError:
            raise Unopenable(f"what the key {key_id!r} opens is no payload") from None


def is_ours(payload: Payload) -> bool:
    """Whether `Codec` made the payload."""
    metadata = payload.metadata
    return metadata.get("encoding") == ENCODING and metadata.get("encryption-cipher") == CIPHER


def encrypting(given: DataConverter, config: Settings) -> DataConverter:
    """`given` with the codec of the settings. If it has a codec of its own, that stays.

    Failures do not contain the messages of errors that may quote data, see `perdure._crypto.failures`. Messages and
    stack traces of failures, which otherwise no codec encrypts, are encrypted too.

    Raises:
        InvalidSetting: the keys cannot be used.
    """
    keys = keyring(config)
    on = encrypts(config) and given.payload_codec is None
    failures = given.failure_converter_class
    if failures is DefaultFailureConverter:
        failures = EncodedFailures if on else Failures
    codec = given.payload_codec or Codec(keys, encrypting=on)
    if codec is given.payload_codec and failures is given.failure_converter_class:
        return given
    return dataclasses.replace(given, payload_codec=codec, failure_converter_class=failures)


def reading_client(client: Client) -> Client:
    """`client`, which decrypts and does not encrypt: for what has no data of an entity, and must be readable after each
    change of keys."""
    keys = _encrypting_keys(client)
    return client if keys is None else _with_codec(client, Codec(keys, encrypting=False))


async def client_for(client: Client, workflow_id: str) -> Client:
    """`client`, which encrypts with the key of the workflow's run: its workers have that key.

    Raises:
        UnknownKey: this process does not have it.
        RPCError: Temporal fails, or has no such workflow.
    """
    keys = _encrypting_keys(client)
    if keys is None:
        return client
    seen = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=_RPC)
    for payload in seen.raw_info.memo.fields.values():
        if is_ours(payload):
            Codec(keys).decrypted(payload)
            return _with_codec(client, Codec(keys.encrypting_with(payload.metadata[KEY_ID].decode())))
    return client


def _encrypting_keys(client: Client) -> Keyring | None:
    codec = client.data_converter.payload_codec
    return codec.keys if isinstance(codec, Codec) and codec.encrypting else None


def _with_codec(client: Client, codec: Codec) -> Client:
    converter = dataclasses.replace(client.data_converter, payload_codec=codec)
    return Client(client.service_client, namespace=client.namespace, data_converter=converter)


def encrypting_client(client: Client, config: Settings) -> Client:
    """`client`, with the codec of the settings if it has none. Raises InvalidSetting, as `encrypting`."""
    converter = encrypting(client.data_converter, config)
    if converter is client.data_converter:
        return client
    made = client.config()
    made["data_converter"], made["plugins"] = converter, []
    return Client(**made)


def encrypts(config: Settings) -> bool:
    """Whether payloads are encrypted. Raises InvalidSetting if the keys cannot be used."""
    return keyring(config) is not None and config.encrypt is not False


async def opened(failure: Failure, converter: DataConverter) -> Failure:
    """A failure of a history with a readable message; unchanged if this process cannot decrypt it."""
    copy = Failure()
    copy.CopyFrom(failure)
    try:
        if converter.payload_codec is not None:
            await converter.payload_codec.decode_failure(copy)
        part = copy
        while True:
            if part.HasField("encoded_attributes"):
                opened = converter.payload_converter.from_payload(part.encoded_attributes)
                part.message, part.stack_trace = str(opened["message"]), str(opened["stack_trace"])
            if not part.HasField("cause"):
                return copy
            part = part.cause
    except Exception:  # whatever a codec raises, the caller shows the rest
        return failure


def _bound(key_id: str) -> bytes:
    return b":".join((b"perdure-payload:1", ENCODING, key_id.encode()))
