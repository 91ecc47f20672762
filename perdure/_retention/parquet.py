"""Parquet files of an archive: written in row groups to a temporary name, read back, and renamed only then.

pyarrow is an extra, imported where it is needed: `pip install 'perdure[archive]'`.
"""

from __future__ import annotations

import glob
import importlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.contracts.keys import Entity
from perdure.errors import InvalidSetting, NotNow

Column = tuple[str, str]
"""Name and kind: `text`, `int`, `bigint` or `time`."""


class ParquetFile:
    """One file while it is written. Nothing has its final name before `finish`.

    Args:
        path: the final name. A file with that name is replaced; see `check_replaceable`.
        about: database and epoch, month and table of the file, which the file contains.

    Raises:
        InvalidSetting: pyarrow is not installed.
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, columns: Sequence[Column], about: Mapping[str, str]) -> None:
        self.path = path
        self.rows = 0
        self._part = path.with_name(f".{path.name}.{about['database']}.part")
        self._about = about
        self._pa, self._pq = _library("pyarrow"), _library("pyarrow.parquet")
        self._schema = _schema(self._pa, columns, about)
        self._writer: Any = self._pq.ParquetWriter(
            str(self._part), self._schema, compression="zstd", write_page_checksum=True
        )

    def add(self, rows: Sequence[Iterable[Any]]) -> None:
        """Write rows as one row group."""
        values = list(zip(*rows, strict=True))
        arrays = [self._pa.array(each, of.type) for each, of in zip(values, self._schema, strict=True)]
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(rows))
        self.rows += len(rows)

    def finish(self, expected: int) -> int:
        """Read the file back, check the number of its rows, and give it its name durably. Returns its bytes.

        Raises:
            OSError: the file is damaged.
            NotNow: the number of rows differs, or another database has written the file meanwhile.
        """
        self._writer.close()
        if (found := read_back(self._part)) != expected:
            raise NotNow(f"{self._part} has {found} rows, the database {expected}: nothing was exported, try again")
        with self._part.open("rb") as file:
            os.fsync(file.fileno())
        check_replaceable(self.path, self._about)
        self._part.replace(self.path)
        _keep_names(self.path.parent)
        return self.path.stat().st_size

    def abandon(self) -> None:
        """Remove the temporary file."""
        self._writer.close()
        self._part.unlink(missing_ok=True)


def check_replaceable(path: Path, about: Mapping[str, str]) -> None:
    """Check that there is no file with this name, or one with the same `about`.

    Raises:
        InvalidSetting: pyarrow is not installed.
        NotNow: the file is of another database, epoch, month or table.
        OSError: the file cannot be read.
    """
    if path.exists() and (standing := read_about(path)) != dict(about):
        raise NotNow(
            f"{path} was not written by this database in its present epoch ({standing or 'no archive'}), and may hold "
            "rows that are only there: keep it under another name, or choose another folder"
        )


def read_about(path: Path) -> dict[str, str]:
    """The `about` of a file; empty = the file is not one of Perdure's.

    Raises:
        InvalidSetting: pyarrow is not installed.
        OSError: the file cannot be read.
    """
    pq, pa = _library("pyarrow.parquet"), _library("pyarrow")
    try:
        metadata = pq.read_metadata(str(path)).metadata or {}
    except pa.ArrowException:
        return {}
    found: dict[str, str] = json.loads(metadata.get(b"perdure", b"{}"))
    return found


def read_back(path: Path) -> int:
    """The number of rows in a file. All of it is read, and each page compared with its checksum.

    Raises:
        InvalidSetting: pyarrow is not installed.
        OSError: the file is missing, damaged or no Parquet file.
    """
    pq, pa = _library("pyarrow.parquet"), _library("pyarrow")
    try:
        with pq.ParquetFile(str(path), page_checksum_verification=True) as file:
            return sum(len(file.read_row_group(number)) for number in range(file.num_row_groups))
    except pa.ArrowException as error:
        raise OSError(f"{path}: {error}") from error


def holds(path: Path, entities: Iterable[Entity]) -> bool:
    """Whether a file has a row of one of these entities. It is sorted by entity, so few row groups are read.

    Raises:
        InvalidSetting: pyarrow is not installed.
        OSError: the file is missing, damaged or no Parquet file, or its columns are of types that can't be compared.
    """
    pq, pa = _library("pyarrow.parquet"), _library("pyarrow")
    ids: dict[str, list[str]] = {}
    for each in entities:
        ids.setdefault(each.lifecycle, []).append(each.id)
    wanted = [[("lifecycle", "==", lifecycle), ("id", "in", some)] for lifecycle, some in ids.items()]
    try:
        found = pq.read_table(str(path), columns=["lifecycle", "id"], filters=wanted, page_checksum_verification=True)
        return bool(found.num_rows)
    except pa.ArrowException as error:
        raise OSError(f"{path}: {error}") from error


def half_written(path: Path) -> list[Path]:
    """Temporary files that a killed process has left for that name, of any database."""
    return sorted(path.parent.glob(glob.escape(f".{path.name}.") + "*.part"))


def check_library() -> None:
    """Check that Parquet files can be written.

    Raises:
        InvalidSetting: pyarrow is not installed.
    """
    _library("pyarrow.parquet")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)  # pyarrow has no type hints
    except ImportError:
        raise InvalidSetting("Parquet needs pyarrow: pip install 'perdure[archive]'") from None


def _schema(pa: Any, columns: Sequence[Column], about: Mapping[str, str]) -> Any:
    kinds = {"text": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "time": pa.timestamp("us", tz="UTC")}
    return pa.schema([(name, kinds[kind]) for name, kind in columns], {"perdure": json.dumps(dict(about))})


def _keep_names(folder: Path) -> None:
    """Let the new name survive a crash of the machine, which rename(2) alone does not guarantee."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
