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
    """One file while it is written; nothing is seen under its name before `finish`.

    Args:
        path: its name in the end. What has that name is replaced, if it is of the same `about`.
        about: stands in the file: which database, month and table it is of.

    Raises:
        InvalidSetting: pyarrow is not installed.
        NotNow: the file that is there is another one's.
        OSError: it can't be written.
    """

    def __init__(self, path: Path, columns: Sequence[Column], about: Mapping[str, str]) -> None:
        self.path = path
        self.rows = 0
        self._part = path.with_name(f".{path.name}.{about['database']}.part")
        self._columns = columns
        self._pa, self._pq = _library("pyarrow"), _library("pyarrow.parquet")
        if path.exists() and (standing := read_about(path)) != dict(about):
            raise NotNow(f"{path} is another one's ({standing}): choose another folder")
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
        """Read it back, see that it has so many rows, and give it its name, for good. Returns its bytes.

        Raises:
            NotNow: it has not.
        """
        self._writer.close()
        if (found := self._read_back()) != expected:
            raise NotNow(f"{self._part} has {found} rows, the database {expected}: nothing was exported, try again")
        with self._part.open("rb") as file:
            os.fsync(file.fileno())
        self._part.replace(self.path)
        _keep_names(self.path.parent)
        return self.path.stat().st_size

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.close()
        self._part.unlink(missing_ok=True)

    def _read_back(self) -> int:
        with self._pq.ParquetFile(str(self._part), page_checksum_verification=True) as file:
            return sum(len(file.read_row_group(number)) for number in range(file.num_row_groups))


def read_about(path: Path) -> dict[str, str]:
    """What stands in a file of this database's or another's: empty = it is none of perdure's.

    Raises:
        InvalidSetting: pyarrow is not installed.
        OSError: it can't be read.
    """
    pq, pa = _library("pyarrow.parquet"), _library("pyarrow")
    try:
        metadata = pq.read_metadata(str(path)).metadata or {}
    except pa.ArrowInvalid:
        return {}
    found: dict[str, str] = json.loads(metadata.get(b"perdure", b"{}"))
    return found


def holds(path: Path, entities: Iterable[Entity]) -> bool:
    """Whether a file has a row of one of these entities. It is sorted by entity, so few row groups are read.

    Raises:
        InvalidSetting: pyarrow is not installed.
        OSError: it is not there, or is no Parquet any more.
    """
    pq, pa = _library("pyarrow.parquet"), _library("pyarrow")
    ids: dict[str, list[str]] = {}
    for each in entities:
        ids.setdefault(each.lifecycle, []).append(each.id)
    wanted = [[("lifecycle", "==", lifecycle), ("id", "in", some)] for lifecycle, some in ids.items()]
    try:
        return bool(pq.read_table(str(path), columns=["lifecycle", "id"], filters=wanted).num_rows)
    except pa.ArrowInvalid as error:
        raise OSError(f"{path}: {error}") from error


def half_written(path: Path) -> list[Path]:
    """What a process that was killed has left of a file of that name, of any database."""
    return sorted(path.parent.glob(glob.escape(f".{path.name}.") + "*.part"))


def check_library() -> None:
    """Make sure that Parquet can be written at all.

    Raises:
        InvalidSetting: pyarrow is not installed.
    """
    _library("pyarrow.parquet")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)  # it brings no types
    except ImportError:
        raise InvalidSetting("Parquet needs pyarrow: pip install 'perdure[archive]'") from None


def _schema(pa: Any, columns: Sequence[Column], about: Mapping[str, str]) -> Any:
    kinds = {"text": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "time": pa.timestamp("us", tz="UTC")}
    return pa.schema([(name, kinds[kind]) for name, kind in columns], {"perdure": json.dumps(dict(about))})


def _keep_names(folder: Path) -> None:
    """The new name outlives a crash of the machine, too: rename(2) alone does not say so."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
