"""Certificates: when those of PostgreSQL, of Temporal and of this client end, since all work stops then."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perdure._operations.doctor.check import Check, Site
from perdure._operations.doctor.validity import end_of, ends_of
from perdure._store.secured import file_of, named
from perdure.contracts.problems import Problem

SOON = timedelta(days=14)
_PATIENCE = 5.0
_AT_SERVER = "renew it on the server, and have the server read it again"
_FILE = "replace the file: workers read it again by themselves"


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate.

    Attributes:
        what: begins a sentence.
        ends: None = it can't be read.
        mend: what to do before it ends.
    """

    what: str
    ends: datetime | None
    mend: str


async def _look(site: Site) -> list[Problem]:
    now = datetime.now(UTC)
    shown = [
        *_files_of_database(site),
        *await _of_postgresql(site),
        *_files_of_temporal(site),
        *await _of_temporal(site),
    ]
    return [found for each in shown if (found := _problem(each, now)) is not None]


def _problem(shown: Shown, now: datetime) -> Problem | None:
    if shown.ends is None:
        return Problem(f"{shown.what} can't be read, so its end is not known", shown.mend, serious=False)
    date, left = f"{shown.ends:%Y-%m-%d %H:%M} UTC", shown.ends - now
    if left <= timedelta(0):
        return Problem(f"{shown.what} ended on {date}", shown.mend)
    if left > SOON:
        return None
    remaining = f"{left.days} days" if left.days > 1 else f"{left / timedelta(hours=1):.0f} hours"
    return Problem(f"{shown.what} ends on {date}, in {remaining}", shown.mend, serious=False)


def _files_of_database(site: Site) -> list[Shown]:
    config = site.config
    urls = dict.fromkeys(
        each for each in (config.database_url, config.column_database_url, config.erasure_database_url) if each
    )
    found: dict[str, Shown] = {}
    for url in urls:
        for name in ("sslcert", "sslrootcert"):
            file = file_of(url, name)
            if file is not None and file not in found:
                found[file] = Shown(f"the certificate in {named(url, name)}", _end_of_file(Path(file), name), _FILE)
    return list(found.values())


def _end_of_file(file: Path, name: str) -> datetime | None:
    try:
        return _end_of(file.read_bytes(), authorities=name == "sslrootcert")
    except OSError:
        return None


def _end_of(pem: bytes, *, authorities: bool) -> datetime | None:
    """A chain ends with its first certificate; a list of authorities serves as long as one of them is valid."""
    try:
        ends = ends_of(pem)
    except ValueError:
        return None
    return (max if authorities else min)(ends, default=None)


async def _of_postgresql(site: Site) -> list[Shown]:
    if site.pool is None:
        return []
    async with site.pool.acquire(timeout=10) as connection:
        wire: Any = connection
        secured = wire._transport.get_extra_info("ssl_object")
        peer = wire._transport.get_extra_info("peername")
    if secured is None:
        return []
    what = f"the certificate of PostgreSQL at {peer[0]}:{peer[1]}"
    return [Shown(what, _end_of_peer(secured.getpeercert(binary_form=True)), _AT_SERVER)]


def _files_of_temporal(site: Site) -> list[Shown]:
    tls = None if site.temporal is None else site.temporal.service_client.config.tls
    found = []
    for what, pem, authorities in (
        ("the client certificate for Temporal", getattr(tls, "client_cert", None), False),
        ("the certificate of Temporal's authority (TEMPORAL_TLS_SERVER_CA_CERT_PATH)", _authority(tls), True),
    ):
        if pem:
            found.append(Shown(what, _end_of(pem, authorities=authorities), _FILE))
    return found


def _authority(tls: object) -> bytes | None:
    found: bytes | None = getattr(tls, "server_root_ca_cert", None)
    return found


async def _of_temporal(site: Site) -> list[Shown]:
    """Temporal's SDK shows no certificate, so a connection of its own reads it, and verifies nothing."""
    if site.temporal is None or not (tls := site.temporal.service_client.config.tls):
        return []
    place = site.temporal.service_client.config.target_host
    host, _, port = place.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    name = getattr(tls, "domain", None) or host.strip("[]")
    end = None
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context, server_hostname=name)
        end = _end_of_peer(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.transport.abort()
    except (OSError, TimeoutError):  # the end stays unknown
        pass
    return [Shown(f"the certificate of Temporal at {place}", end, _AT_SERVER)]


def _end_of_peer(der: bytes | None) -> datetime | None:
    try:
        return None if der is None else end_of(der)
    except ValueError:
        return None


CERTIFICATES = Check("certificates", (), _look)
