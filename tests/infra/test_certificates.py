"""The certificates that tests and benchmarks use are those that every Python accepts."""

from __future__ import annotations

import ssl
from pathlib import Path

from infra.certificates import Authority, server_context


def test_server_and_client_accept_each_other_by_the_rules_of_python_3_13(tmp_path: Path) -> None:
    servers, clients = Authority("servers"), Authority("clients")
    server, client = server_context(servers.issue("server"), clients, tmp_path), ssl.create_default_context()
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"
    clients.issue("client").write(cert, key)
    client.load_verify_locations(cadata=servers.cert.decode())
    client.load_cert_chain(cert, key)
    for each in (server, client):
        each.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    finished = [_goes_on(each) for _ in range(4) for each in ends]
    assert finished[-2:] == [True, True]
    assert ends[1].getpeercert()


def _goes_on(end: ssl.SSLObject) -> bool:
    """Whether the handshake of this end is over."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
