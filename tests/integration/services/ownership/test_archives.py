"""A copy of a database does not replace the archive of its original (invariant 11)."""

from __future__ import annotations

from pathlib import Path

from infra.clusters import base_backup
from perdure.servers.postgres import PostgresServer
from tests.apps.bodies import app
from tests.integration.retention.months import NAME, finished, perdure, pq
from tests.integration.services.ownership.conftest import Worlds
from tests.integration.services.ownership.test_copies import claim


async def test_a_copy_with_its_original_s_folder_leaves_the_files_of_that_one(
    source: PostgresServer, worlds: Worlds, tmp_path: Path
) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        pass
    await finished(world.db, "a")
    copy = worlds.running(base_backup(source, worlds.folder, "staging"))
    await finished(world.db, "b")
    export = ("archive", "export", NAME, "--to", str(tmp_path))
    assert (await perdure(world.dsn, *export)).exit_code == 0
    assert (await perdure(world.dsn, "archive", "drop", NAME, "--yes")).exit_code == 0

    own = await worlds.beside(world, copy, scope=world.scope + "x")
    end = await perdure(own.dsn, *export)
    assert "nothing is exported from here: not verified" in str(end.exception)
    await worlds.refused(own)
    assert (await claim(own, "copied"))[0] == 0
    end = await perdure(own.dsn, *export)
    assert "was not written by this database in its present epoch" in str(end.exception)
    assert pq.read_table(tmp_path / f"finished-{NAME}.parquet")["id"].to_pylist() == ["a", "b"]
    assert (await perdure(own.dsn, "archive", "export", NAME, "--to", str(tmp_path / "staging"))).exit_code == 0
