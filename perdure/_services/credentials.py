"""The credentials of a connection to Temporal: certificates, keys, API key, from `TEMPORAL_*` and its profiles.

The SDK reads the files once. `Renewal` reads them again and connects anew when they have changed, so that certificates
and API keys are replaced while a worker runs.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig
from temporalio.service import ServiceClient, _BridgeServiceClient
from temporalio.worker import Worker

from perdure._services.service import Service
from perdure.errors import InvalidSetting, TemporalUnavailable, UnusableFile
from perdure.logs import log_event

log = logging.getLogger("perdure.worker")

LOOK_EVERY = 10.0
"""Seconds between two looks at the files."""
CONNECT = 15.0
"""Seconds that one attempt to connect may take."""
_READ_AGAIN = ("tls", "api_key", "rpc_metadata")
_FILES = {
    "server_root_ca_cert": "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    "client_cert": "TEMPORAL_TLS_CLIENT_CERT_PATH",
    "client_private_key": "TEMPORAL_TLS_CLIENT_KEY_PATH",
}
_NOT_TLS = "the server at {} does not use TLS, and this client does: set TEMPORAL_TLS=false"
_CLOSES = (
    "the server at {} closes the connection: if it uses TLS, set TEMPORAL_TLS=true; if it requires a client "
    "certificate, set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH to one that it accepts"
)
_REFUSED = {
    "InvalidContentType": (_NOT_TLS, ()),
    "InvalidCertificate": (
        "the certificate of the server at {} is not trusted: set TEMPORAL_TLS_SERVER_CA_CERT_PATH",
        ("server_root_ca_cert",),
    ),
    "InconsistentKeys": ("certificate and key do not belong together", ("client_cert", "client_private_key")),
    "NoCertificatesPresented": ("there is no certificate in PEM in the file", ("client_cert",)),
    "PrivateKeyParseError": ("there is no private key in PEM in the file", ("client_private_key",)),
    "`get_system_info` call error": (_CLOSES, ("client_cert",)),
}
"""A part of the error of the SDK's core, its meaning, and the files that may cause it."""
_NO_ADDRESS = "invalid target URL: "
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
"""The operating system's own words in the error of the SDK's core, which is a printed structure of Rust."""

W = TypeVar("W", bound=Worker)
_workers: WeakKeyDictionary[ServiceClient, WeakSet[Worker]] = WeakKeyDictionary()


def profile() -> ClientConnectConfig:
    """The arguments of `temporalio.client.Client.connect`, by the present environment.

    Raises:
        UnusableFile: a file of the profile cannot be read.
        InvalidSetting: the profile cannot be used. The message quotes nothing of it.
    """
    try:
        found = ClientConfigProfile.load().to_client_connect_config()
    except OSError as error:
        raise UnusableFile(f"{_setting_of(str(error.filename))} can't be read: {error.strerror}") from None
    except Exception as error:  # the core's ConfigError, which quotes the line, and so an API key, is no public class
        raise InvalidSetting(
            f"the profile of TEMPORAL_* and TEMPORAL_CONFIG_FILE can't be used ({type(error).__name__}): "
            "`temporal config list` checks it"
        ) from None
    if not found.get("namespace", "default"):
        raise InvalidSetting("TEMPORAL_NAMESPACE='': write the name of a namespace, or leave it out for 'default'")
    return found


def why_not(address: str, error: BaseException) -> str:
    """Why no client could be connected, in one line. The SDK has the cause only in a text of its core.

    Raises:
        InvalidSetting: the address is none.
    """
    whole = str(error) or type(error).__name__
    text = whole.splitlines()[0][:200]
    if isinstance(error, ValueError) and text.startswith(_NO_ADDRESS):
        why = text.removeprefix(_NO_ADDRESS)
        raise InvalidSetting(f"TEMPORAL_ADDRESS={address!r} can't be used ({why}): write HOST:PORT") from None
    if isinstance(error, ValueError):
        text = "a client certificate and its key must be given together, or neither"
        return f"{text}: TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH"
    for mark, (why, files) in _REFUSED.items():
        if mark in text:
            named = ", ".join(f"{_FILES[each]}={file!r}" for each, file in _files().items() if each in files)
            return f"{why.format(address)} ({f'{named}; ' if named else ''}{text})"
    why = (_CAUSE.findall(whole) or [text])[-1]
    return f"no Temporal server answers at {address} ({why}): start it, or set TEMPORAL_ADDRESS"


def renewed(worker: W) -> W:
    """Register a worker, so that `Renewal` passes each new connection of the client to it."""
    _workers.setdefault(worker.client.service_client, WeakSet()).add(worker)
    return worker


class Renewal(Service):
    """Connects a client anew, in place, when its credentials have changed. If they cannot be used, it logs that, and
    the present connection stays.

    Args:
        client: a client that was connected with `made_with`.
        made_with: the result of `profile`.
        every: seconds between two looks.
    """

    def __init__(self, client: Client, made_with: ClientConnectConfig, every: float = LOOK_EVERY) -> None:
        super().__init__("connection to Temporal", every)
        self._service = client.service_client
        self._made_with = {name: made_with.get(name) for name in _READ_AGAIN}

    async def once(self) -> bool:
        """See base class.

        Raises:
            UnusableFile, InvalidSetting: as `profile`.
            TemporalUnavailable: no connection is possible with the new credentials.
        """
        config = self._service.config
        found: dict[str, Any] = dict(await asyncio.to_thread(profile))
        new = {name: found.get(name) for name in _READ_AGAIN}
        if new == self._made_with:
            return False
        changed: dict[str, Any] = new | {"rpc_metadata": new["rpc_metadata"] or {}}
        try:
            connected = await asyncio.wait_for(ServiceClient.connect(dataclasses.replace(config, **changed)), CONNECT)
        except (RuntimeError, TimeoutError, ValueError) as error:
            raise TemporalUnavailable(why_not(config.target_host, error)) from None
        self._take(connected)
        self._made_with = new
        log_event(log, "connected to Temporal anew: its certificates or API key have changed")
        return False

    def _take(self, connected: ServiceClient) -> None:
        """Put the new connection into the service client, which all objects of the client share, and assign the client
        to each worker again, because a worker reads the connection only then."""
        service = self._service
        assert isinstance(service, _BridgeServiceClient)
        assert isinstance(connected, _BridgeServiceClient)
        service.config, service._bridge_config = connected.config, connected._bridge_config
        service._bridge_client = connected._bridge_client
        for worker in list(_workers.get(service, ())):
            worker.client = worker.client


def _files() -> dict[str, str]:
    """The files of the profile, by the name of their field."""
    try:
        tls = ClientConfigProfile.load().tls
    except Exception:  # the profile could be read a moment ago: the message has no names then
        return {}
    found = {name: getattr(tls, name, None) for name in _FILES}
    return {name: str(file) for name, file in found.items() if file is not None and not isinstance(file, str | bytes)}


def _setting_of(file: str) -> str:
    names = [_FILES[name] for name, each in _files().items() if each == file]
    return f"{names[0] if names else 'TEMPORAL_CONFIG_FILE'}={file!r}"
