"""TLS to Temporal: whether others on the way can read along."""

from __future__ import annotations

import ipaddress

from perdure._operations.doctor.check import Check, Needs, Site
from perdure.contracts.problems import Problem


async def _look(site: Site) -> list[Problem]:
    given = site.client.service_client.config
    host = given.target_host.rpartition(":")[0].strip("[]")
    if given.tls or _is_here(host):
        return []
    return [Problem(f"the connection to Temporal at {given.target_host} is not encrypted", "export TEMPORAL_TLS=true")]


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


TEMPORAL_TLS = Check("TLS to Temporal", (Needs.TEMPORAL,), _look)
