"""The proxy that ends TLS before a server that has none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from infra.certificates import Authority, server_context
from infra.secured import SSL_REQUEST, behind_tls
from tests.deadline import in_time, until


async def test_a_connection_that_the_proxy_cuts_before_tls_begins_is_closed_without_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    context = server_context(authority.issue("server"), authority, tmp_path)
    async with behind_tls("127.0.0.1:1", context, postgres=True) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(SSL_REQUEST)
        assert await in_time(reader.readexactly(1)) == b"S"
    with suppress(ConnectionResetError):
        assert await in_time(reader.read()) == b""
    writer.close()
    await until(lambda: len(asyncio.all_tasks()) == 1, "the proxy's task has ended")
    await asyncio.sleep(0)  # its error would be logged now
    assert not caplog.records
