"""Clusters that come from another: base backups, standbys, recoveries to a point in time, files put back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from perdure.servers.postgres import PostgresServer
from perdure.servers.postgres_binaries import postgres_binaries
from perdure.servers.postgres_user import let_in, server_account


class Cluster(PostgresServer):
    """A server on a data directory that came from another one; it may be a standby."""

    _ready_words = ("ready", "standby")

    def promote(self) -> None:
        """Make a primary of a standby."""
        run("pg_ctl", "promote", "-w", "-D", str(self.data_directory))


def clusters_folder() -> TemporaryDirectory[str]:
    """A folder for clusters. Not in pytest's: another pytest that starts shuts that to the user whom servers run as."""
    return TemporaryDirectory(prefix="perdure-clusters-")


def run(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs as whom its servers run as."""
    account = server_account()
    subprocess.run(
        [postgres_binaries(account) / program, *arguments], check=True, capture_output=True, cwd="/", **account.options
    )


def base_backup(source: PostgresServer, folder: Path, name: str, *, standby: bool = False) -> Cluster:
    """A copy of the cluster as it is now; it is not started."""
    target = folder / name
    target.mkdir(parents=True)
    let_in(server_account(), target)
    url = source.dsn()
    more = ["-R"] if standby else []
    run("pg_basebackup", "-D", str(target), "-d", url, "-c", "fast", "-X", "stream", "--no-sync", *more)
    return Cluster(target, durable=False)


def recover_to(copy: Cluster, source: PostgresServer, point: str) -> None:
    """Have a base backup recover to a named restore point of its source when it starts."""
    with (copy.data_directory / "postgresql.auto.conf").open("a") as settings:
        settings.write(
            f"restore_command = 'cp {source.data_directory}/pg_wal/%f %p'\n"
            f"recovery_target_name = '{point}'\nrecovery_target_action = 'promote'\n"
        )
    signal = copy.data_directory / "recovery.signal"
    signal.touch()
    owner = copy.data_directory.stat()
    shutil.chown(signal, owner.st_uid, owner.st_gid)


def copy_files(source: PostgresServer, target: Path) -> None:
    """Copy the files of a stopped cluster."""
    shutil.copytree(source.data_directory, target, copy_function=_copy_owned)
    _own_folders(source.data_directory, target)


def put_back(server: PostgresServer, files: Path) -> None:
    """Put files that were copied before in place of a stopped cluster's."""
    shutil.rmtree(server.data_directory)
    shutil.copytree(files, server.data_directory, copy_function=_copy_owned)
    _own_folders(files, server.data_directory)


def _copy_owned(source: str, target: str) -> str:
    shutil.copy2(source, target)
    owner = Path(source).stat()
    shutil.chown(target, owner.st_uid, owner.st_gid)
    return target


def _own_folders(source: Path, target: Path) -> None:
    owner = source.stat()
    for folder in (target, *(each for each in target.rglob("*") if each.is_dir())):
        shutil.chown(folder, owner.st_uid, owner.st_gid)
