"""Workers speak TLS with client certificates to PostgreSQL and Temporal, and go on when those are replaced."""

from __future__ import annotations

import re
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from infra.certificates import Authority, server_context
from infra.secured import Files, behind_tls
from perdure._services.credentials import Renewal, profile
from perdure._store.postgres import Database
from perdure.console.sources import Sources
from perdure.errors import UnusableFile
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bookings import LookupBooking
from tests.apps.contracts import Booking
from tests.forked import Forked
from tests.world import WorkerProcess, World


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A client's."""
    return Files(tmp_path / "client")


async def connected(console: Sources) -> Client | None:
    """The client of its pages, when there is one."""
    found = await console.temporal()
    return found if isinstance(found, Client) else None


async def answers(client: Client) -> bool:
    """Whether Temporal does."""
    try:
        return await client.service_client.check_health(timeout=timedelta(seconds=5))
    except (RPCError, RuntimeError):
        return False


async def done(world: World, entity_id: str) -> None:
    """A booking, from its start to its end."""
    await world.client.start(LookupBooking, entity_id, Booking())
    assert await world.ended("lookup", entity_id) == "done"


async def test_certificates_of_postgresql_are_replaced_while_a_worker_runs(
    world: World, postgres: PostgresServer, files: Files, tmp_path: Path
) -> None:
    first, second = Authority("first"), Authority("second")
    before, after = first.issue("worker"), second.issue("worker")
    files.write(first, before)
    target, context = f"127.0.0.1:{postgres.port}", server_context(first.issue("server"), first, tmp_path)
    async with behind_tls(target, context, postgres=True) as proxy:
        worker = await world.spawn(PERDURE_DATABASE_URL=files.url(world.dsn, proxy.port))
        await done(world, "a")
        assert set(proxy.serials) == {before.serial}

        proxy.serials.clear()
        await proxy.change(server_context(second.issue("server"), second, tmp_path))
        await world.until(lambda: f"sslrootcert={str(files.ca)!r}" in worker.text(), "it names the file that is old")
        files.write(second, after)
        await done(world, "b")
        assert set(proxy.serials) == {after.serial}
        assert await worker.stop() == 0


async def test_certificates_of_temporal_are_replaced_while_a_worker_a_relay_and_a_console_run(
    world: World, temporal: TemporalServer, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Authority("first"), Authority("second")
    before, after = first.issue("worker"), second.issue("worker")
    files.write(first, before)
    async with behind_tls(temporal.address, server_context(first.issue("server"), first, tmp_path)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        tls = {"TEMPORAL_ADDRESS": address, **files.temporal()}
        worker = await world.spawn(PERDURE_RELAY="false", **tls)
        log = tmp_path / "relay.log"
        relay = Forked(["services", "tests.apps.bodies:app", "relay"], {**world.environment(), **tls}, log)
        for name, value in tls.items():
            monkeypatch.setenv(name, value)
        console = Sources(world.config, None)
        client = await world.until(lambda: connected(console), "the console is connected")
        await done(world, "a")
        assert set(proxy.serials) == {before.serial}

        files.key.write_bytes(after.key)  # half of the change: it goes on with what it has
        await world.until(lambda: "certificate and key do not belong together" in worker.text(), "it says which")
        await done(world, "b")
        proxy.serials.clear()
        files.write(second, after)
        await proxy.change(server_context(second.issue("server"), second, tmp_path))
        await done(world, "c")
        await world.until(lambda: "connected to Temporal anew" in worker.text(), "the worker says so")
        await world.until(lambda: "connected to Temporal anew" in log.read_text(), "the relay says so")
        await world.until(lambda: answers(client), "the console has an answer")
        await console.close()
        assert set(proxy.serials) == {after.serial}
        assert await worker.stop() == 0
        relay.send_signal(signal.SIGTERM)
        assert await relay.wait() == 0


async def refused(world: World, status: int, **environment: str) -> str:
    """The one line by which a worker ends that can't begin; `status` = 2 where a setting can't be used."""
    process = WorkerProcess(world, "tests.apps.bodies:app", environment)
    world.workers.append(process)
    await process.launch()
    assert await process.gone() == status
    lines = [line for line in process.text().splitlines() if "perdure.store: " not in line]
    assert len(lines) == 1, process.text()
    return lines[0]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("ca", None, "sslrootcert='.*ca.pem' can't be used: No such file or directory"),
        ("ca", b"nonsense", "sslrootcert='.*ca.pem' can't be used: it is not PEM"),
        ("ca", Authority("other").cert, "is not trusted by sslrootcert='.*ca.pem': "),
        ("cert", None, "sslcert='.*client.pem' can't be used: No such file or directory"),
        ("key", None, "sslkey='.*client.key' can't be used: No such file or directory"),
        ("key", Authority("other").issue("x").key, "client.key' can't be used: certificate and key do not belong"),
    ],
)
async def test_a_file_that_postgresql_can_not_be_reached_with_is_named(
    postgres: PostgresServer, files: Files, tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    authority = Authority()
    files.write(authority, authority.issue("worker"))
    file: Path = getattr(files, name)
    file.unlink() if content is None else file.write_bytes(content)
    target, context = f"127.0.0.1:{postgres.port}", server_context(authority.issue("server"), authority, tmp_path)
    async with behind_tls(target, context, postgres=True) as proxy:
        with pytest.raises(UnusableFile, match=why) as error:
            await Database(files.url(postgres.dsn(), proxy.port)).open()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("ca", None, "TEMPORAL_TLS_SERVER_CA_CERT_PATH='.*ca.pem' can't be read: No such file or directory"),
        ("ca", Authority("other").cert, "is not trusted.*TEMPORAL_TLS_SERVER_CA_CERT_PATH='.*ca.pem'"),
        ("cert", b"nonsense", "no certificate in PEM.*TEMPORAL_TLS_CLIENT_CERT_PATH='.*client.pem'"),
        ("key", b"nonsense", "no private key in PEM.*TEMPORAL_TLS_CLIENT_KEY_PATH='.*client.key'"),
        ("key", Authority("other").issue("x").key, "do not belong together.*TEMPORAL_TLS_CLIENT_KEY_PATH="),
    ],
)
async def test_a_file_that_temporal_can_not_be_reached_with_is_named(
    world: World, temporal: TemporalServer, files: Files, tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    authority = Authority()
    files.write(authority, authority.issue("worker"))
    file: Path = getattr(files, name)
    file.unlink() if content is None else file.write_bytes(content)
    status = 2 if content is None else 1
    async with behind_tls(temporal.address, server_context(authority.issue("server"), authority, tmp_path)) as proxy:
        said = await refused(world, status, TEMPORAL_ADDRESS=f"127.0.0.1:{proxy.port}", **files.temporal())
    assert re.search(why, said), said


async def test_a_profile_that_can_not_be_used_is_not_quoted(world: World, tmp_path: Path) -> None:
    (tmp_path / "profile").write_text("[profile.default]\napi_key = 'S3CRET\n")
    said = await refused(world, 2, TEMPORAL_CONFIG_FILE=str(tmp_path / "profile"))
    assert "TEMPORAL_CONFIG_FILE can't be used" in said
    assert "S3CRET" not in said


async def test_a_certificate_without_its_key_is_refused(world: World, files: Files) -> None:
    authority = Authority()
    files.write(authority, authority.issue("worker"))
    said = await refused(world, 1, **{k: v for k, v in files.temporal().items() if "KEY" not in k})
    assert "must be given together" in said


async def test_an_api_key_is_replaced_in_a_profile(
    temporal: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "temporal.toml"
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))

    def write(key: str) -> None:
        file.write_text(
            f'[profile.default]\naddress = "{temporal.address}"\napi_key = "{key}"\ntls = {{disabled = true}}\n'
        )

    write("first")
    made_with = profile()
    client = await Client.connect(**made_with)
    renewal = Renewal(client, made_with)
    assert not await renewal.once()
    connection = client.service_client.config
    assert (client.api_key, client.service_client.config is connection) == ("first", True)
    write("second")
    assert not await renewal.once()
    assert client.api_key == "second"
    assert await client.service_client.check_health()
